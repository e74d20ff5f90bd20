"""One call of a Keras layer or operation as importers see it: tensors and numbers looked up, weights as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, constant
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
    over tensors.
    """

    layer: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    shapes: Sequence[Shape]
    types: Sequence[str]
    again: Callable[[Any, Sequence[Tensor]], list[Tensor]]

    @property
    def name(self) -> str:
        return str(self.layer.name)

    @property
    def shape(self) -> Shape:
        """Of output 0."""
        return self.shapes[0]

    @property
    def type(self) -> str:
        """Of output 0."""
        return self.types[0]

    def input(self, i: int = 0) -> Tensor:
        """Argument ``i``, a tensor; ModelError if it is none."""
        value = self.args[i] if i < len(self.args) else [*self.kwargs.values(), None][i - len(self.args)]
        if not isinstance(value, Tensor):
            raise ModelError(f"{self}: argument {i} is no tensor")
        return value

    def inputs(self) -> list[Tensor]:
        """The tensors of a list in argument 0, or of all arguments."""
        first = self.args[0] if self.args else next(iter(self.kwargs.values()), None)
        return list(first) if isinstance(first, list | tuple) else [t for t in self.args if isinstance(t, Tensor)]

    def argument(self, i: int, name: str, default: Any = None) -> Any:
        """Argument ``i`` or of this name."""
        return self.args[i] if i < len(self.args) else self.kwargs.get(name, default)

    def need(self, condition: bool, reason: str) -> None:
        """UnsupportedOperatorError with the reason unless the condition holds; the reader adds layer and name."""
        if not condition:
            raise UnsupportedOperatorError(reason)

    def channels_last(self) -> None:
        """UnsupportedOperatorError for a layer that has the channels in front."""
        order = getattr(self.layer, "data_format", None)
        self.need(order != "channels_first", "data_format channels_first; build the model with channels_last")

    def weight(self, name: str) -> NDArray[np.float32]:
        """The layer's weight of this name, float32."""
        return array(getattr(self.layer, name), f"{self.name}/{name}")

    def optional(self, name: str) -> NDArray[np.float32] | None:
        """The layer's weight of this name, None if it has none."""
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


def cast(g: Emitter, x: Tensor, kind: str) -> Tensor:
    """The tensor as one of another type."""
    return x if x.type == kind else g.emit("CAST", [x], x.shape, kind, in_data_type=x.type, out_data_type=kind)


def as_tensor(g: Emitter, value: Any) -> Tensor:
    """A Tensor as it is, numbers as a float32 or int32 constant."""
    if isinstance(value, Tensor):
        return value
    data = np.asarray(value)
    kind: Any = {"f": np.float32, "b": np.bool_}.get(data.dtype.kind, np.int32)
    return constant(data.astype(kind), f"{g.place}/constant")
