"""Finds the importers: every module in ``converter/keras/layers`` ends with ``IMPORTERS``, class name to function."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from twinfer.converter.discovery import importers_in
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.keras import layers
from twinfer.converter.keras.call import Call
from twinfer.runtime.graph import Tensor

#: Emits the operators for one call of a layer and returns its outputs.
Importer = Callable[[Emitter, Call], Tensor | Sequence[Tensor]]

#: What would help where a layer has no importer; the others get ``NO_IMPORTER``.
HINTS = {
    "Masking": "masks are not carried: convert the model for sequences of full length",
    "ConvLSTM2D": "write it as convolutions over the steps",
    "StackedRNNCells": "use one recurrent layer behind the other",
    "TextVectorization": "do it in the program that runs the model, and feed numbers",
    "StringLookup": "do it in the program that runs the model, and feed numbers",
}
#: Layers whose importers take a mask, and what they call it.
MASKS = {"MultiHeadAttention": "attention_mask", "Softmax": "mask"}

NO_IMPORTER = "there is no form of it in TFLite's operators here; replace it by other layers"


@cache
def importers() -> Mapping[str, Importer]:
    """All importers by class name; those of ``keras.ops`` are called ``ops.Class``."""
    return importers_in(layers)


@cache
def functions() -> Mapping[str, Callable[[Emitter, Tensor], Tensor]]:
    """What emits each function of ``keras.activations``, by name."""
    return importlib.import_module(f"{layers.__name__}.activation").FUNCTIONS  # type: ignore[no-any-return]


def importer_of(operation: Any) -> Importer | None:
    """The importer of an operation's class, or of a base class of Keras that computes the same."""
    import keras

    kind = type(operation)
    for base in kind.__mro__:
        own = base.__module__.split(".")[0] == "keras"
        prefix = "" if issubclass(base, keras.layers.Layer) else "ops."
        if own and prefix + base.__name__ in importers():
            return (
                importers()[prefix + base.__name__]
                if getattr(kind, "call", None) is getattr(base, "call", None)
                else None
            )
    return None
