"""One call of a Keras layer as importers see it, and the importers: every module in ``converter/keras/layers`` ends
with ``IMPORTERS``, class name to function."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.keras import layers
from twinfer.converter.table import importers_in
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

Shape = tuple[int, ...]

#: TFLite's types as Keras calls them, and those of Keras that are carried as another.
NAMES = {
    "FLOAT32": "float32", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8",
    "BOOL": "bool",
}  # fmt: skip
CARRIED = {
    **{name: kind for kind, name in NAMES.items()},
    **dict.fromkeys(("float16", "bfloat16", "float64"), "FLOAT32"),
}


@dataclass(frozen=True, eq=False)
class Call:
    """``layer`` called with ``args`` and ``kwargs``, in which tensors stand as Tensors and weights as arrays.

    ``shapes`` and ``types`` are those of its outputs. ``again`` emits another layer, or a Python function of Keras,
    over arguments as above, and returns its outputs.
    """

    layer: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    shapes: Sequence[Shape]
    types: Sequence[str]
    again: Callable[..., list[Tensor]]

    @property
    def name(self) -> str:
        return str(self.layer.name)

    @property
    def shape(self) -> Shape:
        return self.shapes[0]

    @property
    def type(self) -> str:
        return self.types[0]

    def input(self, i: int = 0) -> Tensor:
        value = self.args[i] if i < len(self.args) else [*self.kwargs.values(), None][i - len(self.args)]
        if not isinstance(value, Tensor):
            raise ModelError(f"{self}: argument {i} is no tensor")
        return value

    def inputs(self) -> list[Tensor]:
        """The tensors of a list in argument 0, or of all arguments."""
        first = self.args[0] if self.args else next(iter(self.kwargs.values()), None)
        return list(first) if isinstance(first, list | tuple) else [t for t in self.args if isinstance(t, Tensor)]

    def argument(self, i: int, name: str, default: Any = None) -> Any:
        return self.args[i] if i < len(self.args) else self.kwargs.get(name, default)

    def follow(self) -> list[Tensor]:
        """The outputs of the layer's own code, for options that its importer has no better form of."""
        return self.again(self.layer.call, self.args, self.kwargs)

    def need(self, condition: bool, reason: str) -> None:
        """UnsupportedOperatorError with the reason unless the condition holds; the reader adds layer and name."""
        if not condition:
            raise UnsupportedOperatorError(reason)

    def weight(self, name: str) -> NDArray[np.float32]:
        return array(getattr(self.layer, name), f"{self.name}/{name}")

    def optional(self, name: str) -> NDArray[np.float32] | None:
        return None if getattr(self.layer, name, None) is None else self.weight(name)

    def activated(self, x: Tensor, name: str = "activation") -> Tensor:
        """x after the layer's activation function of this name."""
        function = getattr(self.layer, name, None)
        return x if function is None else self.again(function, [x])[0]

    def __str__(self) -> str:
        return f"{type(self.layer).__name__} {self.name!r}"


def dimensions(axis: Any, x: Tensor) -> Shape:
    """The dimensions that ``axis`` names, in order: one, several, or all (None), counted from the front or the end."""
    given = range(len(x.shape)) if axis is None else axis if isinstance(axis, list | tuple) else [axis]
    return tuple(sorted(int(a) % len(x.shape) for a in given))


def numbers(value: Any) -> NDArray[Any]:
    """A variable, tensor or number of any backend as an array."""
    held = value.value if isinstance(value, keras.Variable) else value
    return np.asarray(keras.ops.convert_to_numpy(held) if keras.ops.is_tensor(held) else held)


def array(value: Any, name: str) -> NDArray[np.float32]:
    """A weight as float32; ModelError for values that are no numbers."""
    data = numbers(value).astype(np.float32)
    if bad := int((~np.isfinite(data)).sum()):
        raise ModelError(f"weight {name!r} {list(data.shape)} has {bad} values that are NaN or infinite")
    return data


def unpacked(layer: Any, name: str, place: str) -> NDArray[np.float32]:
    """A weight as floats, also of a layer that ``model.quantize`` has changed: what its integers stand for.

    Keras rounds the inputs of such a layer, too, each to 8 bits of its own. Here they stay as they are.
    """
    data = array(getattr(layer, name), f"{place}/{name}")
    mode = getattr(layer, "quantization_mode", None)
    if mode in (None, "float8"):
        return data
    if mode == "int8":
        scale = numbers(getattr(layer, f"{name}_scale")).astype(np.float32)
        axis = {"kernel": -1, "embeddings": 0, "reverse_embeddings": -1}[name]
        return data / scale.reshape([-1 if i == axis % data.ndim else 1 for i in range(data.ndim)])
    if mode == "int4" and name == "kernel" and hasattr(layer, "g_idx"):
        groups = numbers(layer.g_idx).astype(int)
        scale, zero = (
            numbers(getattr(layer, f"kernel_{part}")).astype(np.float32)[groups] for part in ("scale", "zero")
        )
        return np.asarray((data - zero) * scale, np.float32)
    raise UnsupportedOperatorError(f"weights of {mode}; use model.quantize('int8'), or convert the float model")


def as_tensor(g: Emitter, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    data = np.asarray(value)
    kind: Any = {"f": np.float32, "b": np.bool_}.get(data.dtype.kind, np.int32)
    return constant(data.astype(kind), f"{g.place}/constant")


#: Emits the operators for one call of a layer and returns its outputs.
Importer = Callable[[Emitter, Call], Tensor | Sequence[Tensor]]


def any_order(importer: Importer) -> Importer:
    """The importer of a layer over images [n, ..., c], also for one that has the channels in front."""

    def run(g: Emitter, call: Call) -> Tensor | Sequence[Tensor]:
        order = call.layer.data_format or keras.config.image_data_format()
        if order != "channels_first":
            return importer(g, call)
        x = call.input()
        rank = len(x.shape)
        behind, front = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
        whole = len(call.shape) == rank
        shape = tuple(call.shape[i] for i in behind) if whole else call.shape
        moved = g.transpose(x, behind)
        y = importer(
            g, replace(call, args=(moved, *call.args[1:]), kwargs=call.kwargs if call.args else {}, shapes=[shape])
        )
        return g.transpose(y, front) if whole and isinstance(y, Tensor) else y

    return run


#: Classes of Keras 3.15 that state another shape for their results than they have, for some arguments.
MISSTATED = {"Activation", "AdaptiveAveragePool", "AdaptiveMaxPool", "MultiHeadAttention"}

#: Importers that ``composed`` made.
COMPOSED = set[Importer]()


def composed(function: Any) -> Importer:
    """An operation that is made of others: ``function`` writes it in ``keras.ops``, of the operation, which has the
    attributes, and of its arguments. What comes out is right, also where Keras is wrong about shape or type ahead."""

    def run(g: Emitter, call: Call) -> list[Tensor]:
        return call.again(partial(function, call.layer), call.args, call.kwargs)

    COMPOSED.add(run)
    return run


#: What would help where a layer has no importer; the others get ``NO_IMPORTER``.
HINTS = {
    "ContrastLimitedAdaptiveHistogramEqualization": "equalise images in the program that runs the model",
    "CTCDecode": "decode in the program that runs the model, from its scores",
    "CTCLoss": "a loss is for training; leave it out of the model",
    "Gcd": "it takes as many steps as the numbers ask for; compute it beside the model",
    "Lcm": "it takes as many steps as the numbers ask for; compute it beside the model",
    "Nonzero": "a result whose size depends on values; use keras.ops.where with three arguments",
    "Unique": "a result whose size depends on values; use keras.ops.sort or keras.ops.bincount",
    "TextVectorization": "do it in the program that runs the model, and feed numbers",
    "StringLookup": "do it in the program that runs the model, and feed numbers",
}

#: Layers whose importers take masks, and what they call them. For others that are given one there is an error.
MASKS: Mapping[str, Sequence[str]] = {
    "BatchNormalization": ("mask",),  # it has an effect in training alone
    "GlobalAveragePooling1D": ("mask",),
    "MultiHeadAttention": ("attention_mask", "key_mask", "query_mask", "value_mask"),
    "Softmax": ("mask",),
    **dict.fromkeys(("Bidirectional", "GRU", "LSTM", "RNN", "SimpleRNN"), ("mask",)),
}
NO_IMPORTER = "there is no form of it in TFLite's operators here; replace it by other layers"


@cache
def importers() -> Mapping[str, Importer]:
    """All importers by class name; those of ``keras.ops`` are called ``ops.Class``."""
    return importers_in(layers)


@cache
def functions() -> Mapping[str, Callable[[Emitter, Tensor], Tensor]]:
    return importlib.import_module(f"{layers.__name__}.activation").FUNCTIONS  # type: ignore[no-any-return]


def importer_of(operation: Any) -> Importer | None:
    """The importer of an operation's class, or of a base class of Keras that computes the same."""
    kind = type(operation)
    for base in kind.__mro__:
        own = base.__module__.split(".")[0] == "keras"
        prefix = "" if issubclass(base, keras.layers.Layer) else "ops."
        if own and (importer := importers().get(prefix + base.__name__)):
            return importer if getattr(kind, "call", None) is getattr(base, "call", None) else None
    return None
