"""Walks the calls that lead to a model's outputs, in the order in which they have to be made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.problems import Problems
from twinfer.converter.keras.call import Call, Shape, as_tensor, numbers
from twinfer.converter.keras.registry import HINTS, NO_IMPORTER, functions, importer_of
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

#: TFLite's types as Keras calls them, and those of Keras that are carried as another.
DTYPES = {
    "FLOAT32": "float32", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8",
    "BOOL": "bool",
}  # fmt: skip
CARRIED = {**{name: kind for kind, name in DTYPES.items()}, "float16": "FLOAT32", "bfloat16": "FLOAT32"}


class Walk:
    """Emits the calls that symbolic tensors come from, given Tensors for some of them."""

    def __init__(self, g: Emitter, inputs: Sequence[Any], tensors: Sequence[Tensor]) -> None:
        self.g = g
        self.problems = Problems()
        self.names: dict[Tensor, str] = {}  # the layer that a tensor comes from
        self.values = dict(zip(inputs, tensors, strict=True))  # symbolic tensors are equal only to themselves

    def run(self, outputs: Sequence[Any]) -> list[Tensor]:
        """The Tensors of symbolic outputs; stand-ins for what cannot be expressed, which ``problems`` lists."""
        for output in outputs:
            self._make(output)
        return [self.values[output] for output in outputs]

    def _make(self, wanted: Any) -> None:
        """Emits all calls behind a symbolic tensor; nets are too deep for recursion."""
        stack = [wanted]
        while stack:
            if stack[-1] in self.values:
                stack.pop()
                continue
            node = _node(stack[-1])
            missing = [t for t in node.input_tensors if t not in self.values]
            stack.extend(reversed(missing))
            if not missing:
                self._emit(node)

    def _emit(self, node: Any) -> None:
        name = node.operation.name
        args, kwargs = self._filled(node.arguments.args), self._filled(node.arguments.kwargs)
        try:
            outputs = self.called(node.operation, args, kwargs)
        except UnsupportedOperatorError as error:
            self.problems.add(type(node.operation).__name__, str(error), name)
            outputs = [_stand_in(name, symbol) for symbol in node.output_tensors]
        except (ModelError, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            if not self.problems.by_reason:
                raise ModelError(f"{type(node.operation).__name__} {name!r}: {error}") from error
            outputs = [_stand_in(name, symbol) for symbol in node.output_tensors]  # stand-ins may have been wrong
        for symbol, tensor in zip(node.output_tensors, outputs, strict=True):
            self.values[symbol] = tensor
            self.names[tensor] = name

    def _filled(self, arguments: Any) -> Any:
        """Arguments with Tensors for symbolic tensors, and arrays for variables and constants."""
        return keras.tree.map_structure(self._value, arguments)

    def _value(self, value: Any) -> Any:
        if isinstance(value, keras.KerasTensor):
            return self.values[value]
        if isinstance(value, keras.Variable) or keras.ops.is_tensor(value):
            data = numbers(value)
            return data.astype(np.float32) if data.dtype.kind not in "iub" else data
        return value

    def called(self, layer: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
        """The outputs of a layer or operation over these arguments."""
        if isinstance(kwargs.get("mask"), Tensor):
            raise UnsupportedOperatorError("masks are not carried: convert the model for sequences of full length")
        self.g.place = layer.name
        importer = importer_of(layer)
        if importer is not None:
            shapes = _shapes(layer, args, kwargs)
            outputs = importer(self.g, Call(layer, tuple(args), kwargs, shapes, self.again))
            return _checked([outputs] if isinstance(outputs, Tensor) else list(outputs), shapes)
        if _is_functional(layer):
            return self._nested(list(layer.inputs), list(layer.outputs), _tensors((args, kwargs)))
        return self._traced(layer, args, kwargs)

    def again(self, function: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of another layer, or of a function made of Keras's operations, over Tensors."""
        name = getattr(function, "__name__", "")
        if name in functions() and getattr(keras.activations, name, None) is function:
            return [functions()[name](self.g, tensors[0])]
        if not isinstance(function, keras.layers.Layer):
            return self._through(function, function, [*tensors], {})
        place = self.g.place
        outputs = self.called(function, list(tensors), {})
        self.g.place = place
        return outputs

    def _traced(self, layer: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
        """A layer without importer by what its ``call`` does with symbolic tensors."""
        name = type(layer).__name__
        if not isinstance(layer, keras.layers.Layer) or name in HINTS:
            raise UnsupportedOperatorError(HINTS.get(name, NO_IMPORTER))
        with _as_before(layer):
            return self._through(layer, layer.call, args, kwargs)

    def _through(self, owner: Any, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
        """A function's outputs: it runs on symbolic tensors in place of Tensors; the calls that it makes are read."""
        given = _tensors((args, kwargs))
        symbols = {t: _symbol(t) for t in given}
        args, kwargs = _each_tensor(symbols.__getitem__, (list(args), dict(kwargs)))
        try:
            outputs = keras.tree.flatten(function(*args, **_predicting(function, kwargs)))
        except Exception as error:  # the user's own code: it may raise anything
            raise UnsupportedOperatorError(f"{NO_IMPORTER} (its code cannot be followed: {error})") from error
        return self._nested([symbols[t] for t in given], outputs, given)

    def _nested(self, inputs: Sequence[Any], outputs: Sequence[Any], tensors: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of a graph inside a layer; what cannot be expressed in it becomes a problem of this walk."""
        inner = Walk(self.g, inputs, tensors)
        place = self.g.place
        symbols = [o for o in outputs if isinstance(o, keras.KerasTensor)]
        results = dict(zip(symbols, inner.run(symbols), strict=True))
        self.g.place = place
        self.names.update(inner.names)
        for (kind, reason), names in inner.problems.by_reason.items():
            for name in names:
                self.problems.add(kind, reason, f"{place}/{name}")
        return [results[o] if isinstance(o, keras.KerasTensor) else as_tensor(self.g, self._value(o)) for o in outputs]


def _node(symbol: Any) -> Any:
    """The call that made a symbolic tensor."""
    operation, index, _ = symbol._keras_history
    if operation is None:
        raise ModelError(f"{symbol} comes from no call; it does not depend on this model's inputs")
    return operation._inbound_nodes[index]


def _tensors(arguments: Any) -> list[Tensor]:
    return [t for t in keras.tree.flatten(arguments) if isinstance(t, Tensor)]


def _each_tensor(function: Callable[[Tensor], Any], arguments: Any) -> Any:
    """The arguments with ``function(t)`` for every Tensor t among them."""
    return keras.tree.map_structure(lambda v: function(v) if isinstance(v, Tensor) else v, arguments)


def _symbol(tensor: Tensor) -> Any:
    return keras.KerasTensor(tensor.shape, dtype=DTYPES[tensor.type])


def _shapes(layer: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Shape]:
    """The shapes of a layer's outputs, as Keras gives them for these inputs."""
    args, kwargs = _each_tensor(_symbol, (list(args), kwargs))
    return [tuple(t.shape) for t in keras.tree.flatten(layer.compute_output_spec(*args, **kwargs))]


def _stand_in(name: str, symbol: Any) -> Tensor:
    """Something of the type and shape of an output, so that the layers behind are checked."""
    return Tensor(name, CARRIED.get(symbol.dtype, "FLOAT32"), tuple(1 if d is None else d for d in symbol.shape))


def _checked(outputs: list[Tensor], shapes: Sequence[Shape]) -> list[Tensor]:
    """ModelError unless a layer's outputs have the shapes that Keras says."""
    for tensor, shape in zip(outputs, shapes, strict=True):
        if tensor.shape != shape:
            raise ModelError(f"{tensor} should have the shape {list(shape)}")
    return outputs


def _is_functional(layer: Any) -> bool:
    """Whether a layer is a model whose own graph says all of what it does."""
    call = type(layer).call
    known = call.__qualname__ in ("Functional.call", "Sequential.call") and call.__module__.startswith("keras.")
    return isinstance(layer, keras.Model) and known


def _predicting(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with ``training`` off where there is such."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return dict(kwargs)
    kwargs = {name: value for name, value in kwargs.items() if value is not None or name not in ("mask", "training")}
    return {**kwargs, "training": False} if "training" in parameters else dict(kwargs)


@contextmanager
def _as_before(layer: Any) -> Iterator[None]:
    """Running a layer's code adds calls to the layers inside it, which remember them; takes these away again."""
    inside = list(layer._flatten_layers())
    before = [len(part._inbound_nodes) for part in inside]
    try:
        yield
    finally:
        for part, count in zip(inside, before, strict=True):
            del part._inbound_nodes[count:]
