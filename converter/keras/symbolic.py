"""Code of layers runs on symbolic tensors here: what it does is recorded as calls of layers and ``keras.ops``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any

import keras
import numpy as np

#: Operators of variables and tensors that have a reflected form, which symbolic tensors record.
OPERATORS = (
    "__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__matmul__", "__and__",
    "__or__", "__xor__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__",
)  # fmt: skip

#: Where a backend has functions that ``keras.ops`` has, too.
MODULES = ("core", "image", "linalg", "math", "nn", "numpy")


class Backend:
    """Stands in for the backend that a layer calls directly: ``keras.ops``, which takes symbolic tensors."""

    def __init__(self, own: Any) -> None:
        self._own = own

    @property
    def __name__(self) -> str:
        return "keras.ops"

    @staticmethod
    def digitize(x: Any, bins: Any) -> Any:
        """Of a list of numbers, too."""
        return keras.ops.digitize(x, np.asarray(bins, np.float32))

    def __getattr__(self, name: str) -> Any:
        if name in MODULES:
            return self
        return next(
            (getattr(place, name) for place in (keras.ops, keras.ops.image) if hasattr(place, name)),
            getattr(self._own, name, None),
        )


@contextmanager
def symbolic(layer: Any) -> Iterator[None]:
    """While a layer's code runs on symbolic tensors. The layers inside it remember no calls that are made here."""
    inside = list(layer._flatten_layers()) if isinstance(layer, keras.layers.Layer) else []
    before = [len(part._inbound_nodes) for part in inside]
    own = [(part, part.__dict__["backend"]) for part in inside if "backend" in part.__dict__]
    kinds = [keras.Variable, type(keras.ops.convert_to_tensor(0.0))]
    changed = list[tuple[Any, str, Any]]()
    try:
        for part, backend in own:
            part.__dict__["backend"] = Backend(backend)
        for kind, name in ((kind, name) for kind in kinds for name in OPERATORS):
            before_it = vars(kind).get(name)
            with suppress(AttributeError, TypeError):  # a backend may forbid it
                setattr(kind, name, _reflected(getattr(kind, name)))
                changed.append((kind, name, before_it))
        yield
    finally:
        for kind, name, method in reversed(changed):
            if method is None:
                delattr(kind, name)
            else:
                setattr(kind, name, method)
        for part, backend in own:
            part.__dict__["backend"] = backend
        for part, count in zip(inside, before, strict=True):
            del part._inbound_nodes[count:]


def _reflected(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The operator of a variable, which leaves symbolic tensors on its right to their own reflected operator."""

    @wraps(method)
    def run(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, keras.KerasTensor) else method(self, other)

    return run
