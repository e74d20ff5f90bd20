"""Keras comes in here: ``from_keras`` makes a ``Graph`` of a model. Each file in ``layers`` is a family of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Graph

__all__ = ["from_keras"]


def from_keras(model: Any, *, batch: int = 1, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The model as a float Graph, for ``twinfer.convert`` to optimise and quantise::

        graph = twinfer.from_keras(model)
        twinfer.convert_file(graph, "model.tflite", quantize="int8", calibration={"input": images})

    ``model``: a ``keras.Model`` of Keras 3, with any backend: sequential, functional or a subclass whose ``call`` is
    made of layers and ``keras.ops``; or the path of a .keras file, which is loaded in safe mode. The graph is made for
    ``batch`` samples; ``shapes`` gives inputs with other open dimensions a shape by name, batch included. Inputs and
    outputs keep Keras's order and names (the keys of a dict that the model was made with, else the layers'); all float
    types are float32. The model is converted as it predicts (dropout does nothing) and is left as it was.

    Raises ToolError without the extra ``keras`` or a backend, InvalidArgumentError for arguments that do not fit and
    models that are not built, UnsupportedOperatorError once for all layers that cannot be expressed, with names and
    counts (stateful layers, complex numbers, and results whose size depends on values are such), and for files with
    code of their own, ModelError for damaged files and for weights with NaN or infinity. Weights of
    ``model.quantize("int8")`` become the floats that they stand for.
    """
    if find_spec("keras") is None:
        raise ToolError("Keras models need the package keras and a backend of it: pip install 'twinfer[keras]'")
    try:
        import keras  # noqa: F401
    except ImportError as error:  # TensorFlow is its default
        there = [f"KERAS_BACKEND={name}" for name in ("tensorflow", "torch", "jax") if find_spec(name) is not None]
        what = f"set {' or '.join(there)} in the environment" if there else "install tensorflow, torch or jax"
        raise ToolError(f"Keras cannot load its backend ({error}): {what}") from error
    from twinfer.converter.keras.read import read_keras

    return read_keras(model, batch, shapes or {})
