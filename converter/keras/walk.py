"""Walks the calls that lead to a model's outputs, in the order in which they have to be made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.finish import Problems
from twinfer.converter.keras.call import (
    CARRIED,
    COMPOSED,
    HINTS,
    MASKS,
    MISSTATED,
    NAMES,
    NO_IMPORTER,
    Call,
    Shape,
    as_tensor,
    functions,
    importer_of,
    numbers,
)
from twinfer.converter.keras.symbolic import symbolic
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

NO_MASKS = "masks are not carried: convert the model for sequences of full length"


class Walk:
    """Emits the calls that symbolic tensors come from, given Tensors for some of them."""

    def __init__(self, g: Emitter, inputs: Sequence[Any], tensors: Sequence[Tensor], outer: Walk | None = None) -> None:
        self.g = g
        self.code = False  # what is walked comes from code: the names of its operations are numbers that Keras gave
        self.masks: dict[Tensor, tuple[Walk, Any]] = {} if outer is None else outer.masks  # symbol of the steps to hide
        self.problems = Problems()
        self.names: dict[Tensor, str] = {}  # the layer that a tensor comes from
        self.values = dict(zip(inputs, tensors, strict=True))  # symbolic tensors are equal only to themselves

    def run(self, outputs: Sequence[Any]) -> list[Tensor]:
        """The Tensors of symbolic outputs; stand-ins for what cannot be expressed, which ``problems`` lists."""
        stack = list(reversed(outputs))  # nets are too deep for recursion
        while stack:
            if stack[-1] in self.values:
                stack.pop()
                continue
            node = _node(stack[-1])
            missing = [t for t in node.input_tensors if t not in self.values]
            stack.extend(reversed(missing))
            if not missing:
                self._emit(node)
        return [self.values[output] for output in outputs]

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
            if not self.code or isinstance(node.operation, keras.layers.Layer):
                self.names[tensor] = name
            if (mask := getattr(symbol, "_keras_mask", None)) is not None:
                self.masks[tensor] = self, mask
            elif (carried := self._carried(node)) is not None:
                self.masks[tensor] = carried

    def _carried(self, node: Any) -> tuple[Walk, Any] | None:
        """The mask that a layer hands on from its first input, in a graph that was made before there was one."""
        layer, symbol = node.operation, node.input_tensors[0] if node.input_tensors else None
        known = self.masks.get(self.values[symbol]) if symbol is not None else None
        if (
            known is None
            or getattr(symbol, "_keras_mask", None) is not None
            or not isinstance(layer, keras.layers.Layer)
        ):
            return None
        same = type(layer).compute_mask is keras.layers.Layer.compute_mask
        return (known if same else (self, None)) if layer.supports_masking else None

    def _with_masks(self, layer: Any, args: Any, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments with the masks that the inputs carry where the layer takes some, as Keras adds them."""
        names = _parameters(layer.call)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        inputs = {
            name: value for name, value in given.items() if name and _tensors(value) and not name.endswith("mask")
        }
        keys = ["mask"] if len(inputs) == 1 else [f"{name}_mask" for name in inputs]
        found = {
            key: keras.tree.map_structure(self._mask, value) for key, value in zip(keys, inputs.values(), strict=True)
        }
        masks = {key: m for key, m in found.items() if key in names and _tensors(m) and not _tensors(given.get(key))}
        return {**kwargs, **masks}

    def _mask(self, tensor: Any) -> Tensor | None:
        if not isinstance(tensor, Tensor) or tensor not in self.masks:
            return None
        walk, symbol = self.masks[tensor]
        if symbol is None:
            raise UnsupportedOperatorError(NO_MASKS)
        return walk.run([symbol])[0]

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
        importer = importer_of(layer)
        if isinstance(layer, keras.layers.Layer):
            kwargs = self._with_masks(layer, args, kwargs)
        if not self.code or isinstance(layer, keras.layers.Layer):
            self.g.place = layer.name
        if importer is not None:
            _refuse_masks(layer, args, kwargs)
            if importer in COMPOSED:
                return [*importer(self.g, Call(layer, tuple(args), kwargs, (), (), self.again))]  # type: ignore[misc]
            shapes, types = _described(layer, args, kwargs)
            given = importer(self.g, Call(layer, tuple(args), kwargs, shapes, types, self.again))
            outputs = [given] if isinstance(given, Tensor) else list(given)
            known = type(layer).__name__ not in MISSTATED
            for tensor, shape, kind in zip(outputs, shapes, types, strict=True) if known else ():
                fits = len(shape) == len(tensor.shape) and all(
                    s in (None, d) for s, d in zip(shape, tensor.shape, strict=True)
                )
                if not fits or tensor.type != kind:
                    raise ModelError(f"{tensor} should have the shape {list(shape)} and be {kind}")
            return outputs
        call = type(layer).call
        known = call.__qualname__ in ("Functional.call", "Sequential.call") and call.__module__.startswith("keras.")
        if isinstance(layer, keras.Model) and known:  # its own graph says all of what it does
            tensors = [t for t in _tensors((args, kwargs.get("inputs"))) if t not in _tensors(kwargs.get("mask"))]
            return self._nested(list(layer.inputs), list(layer.outputs), tensors)
        name = type(layer).__name__
        if not isinstance(layer, keras.layers.Layer) or name in HINTS:
            raise UnsupportedOperatorError(HINTS.get(name, NO_IMPORTER))
        if getattr(layer, "quantization_mode", None):
            raise UnsupportedOperatorError("quantised weights; convert the float model")
        return self._through(layer.call, args, kwargs)  # what its code does with symbolic tensors

    def again(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Tensor]:
        """The outputs of another layer, or of a function made of Keras's operations, over Tensors and arrays."""
        name = getattr(function, "__name__", "")
        if name in functions() and getattr(keras.activations, name, None) is function:
            return [functions()[name](self.g, args[0])]
        if getattr(keras.activations, name, None) is function and hasattr(keras.ops, name):
            function = getattr(keras.ops, name)  # some activations call their backend
        if not isinstance(function, keras.layers.Layer):
            return self._through(function, args, kwargs or {})
        place = self.g.place
        outputs = self.called(function, list(args), kwargs or {})
        self.g.place = place
        return outputs

    def _through(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
        """A function's outputs: it runs on symbolic tensors in place of Tensors; the calls that it makes are read."""
        given = list(dict.fromkeys(_tensors((args, kwargs))))
        symbols = {t: _symbol(t) for t in given}
        masks = {t: mask for t in symbols if (mask := self._mask(t)) is not None}
        for tensor, mask in masks.items():
            symbols[tensor]._keras_mask = symbols.setdefault(mask, _symbol(mask))  # layers inside meet it
        args, kwargs = _each_tensor(symbols.__getitem__, (list(args), dict(kwargs)))
        args, kwargs = keras.tree.map_structure(_as_keras, (args, kwargs))
        owner = function.args[0] if isinstance(function, partial) else getattr(function, "__self__", None)
        with symbolic(owner):
            try:
                outputs = keras.tree.flatten(function(*args, **_predicting(function, kwargs)))
            except UnsupportedOperatorError:
                raise
            except Exception as error:  # the user's own code: it may raise anything
                raise UnsupportedOperatorError(f"{NO_IMPORTER} (its code cannot be followed: {error})") from error
            return self._nested(list(symbols.values()), outputs, list(symbols), code=True)

    def _nested(
        self, inputs: Sequence[Any], outputs: Sequence[Any], tensors: Sequence[Tensor], code: bool = False
    ) -> list[Tensor]:
        """The outputs of a graph inside a layer; what cannot be expressed in it becomes a problem of this walk."""
        inner = Walk(self.g, inputs, tensors, self)
        inner.code = code
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
    operation, index, _ = symbol._keras_history
    if operation is None:
        raise ModelError(f"{symbol} comes from no call; it does not depend on this model's inputs")
    return operation._inbound_nodes[index]


def _tensors(arguments: Any) -> list[Tensor]:
    return [t for t in keras.tree.flatten(arguments) if isinstance(t, Tensor)]


def _as_keras(value: Any) -> Any:
    """An array as a tensor of Keras's backend, which code may expect."""
    return keras.ops.convert_to_tensor(value) if isinstance(value, np.ndarray) else value


def _each_tensor(function: Callable[[Tensor], Any], arguments: Any) -> Any:
    """The arguments with ``function(t)`` for every Tensor t among them."""
    return keras.tree.map_structure(lambda v: function(v) if isinstance(v, Tensor) else v, arguments)


def _symbol(tensor: Tensor) -> Any:
    return keras.KerasTensor(tensor.shape, dtype=NAMES[tensor.type])


def _described(layer: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[list[Shape], list[str]]:
    """Shapes and types of a layer's outputs, as Keras gives them for these inputs."""
    args, kwargs = _each_tensor(_symbol, (list(args), kwargs))
    outputs = keras.tree.flatten(layer.compute_output_spec(*args, **kwargs))
    return [tuple(t.shape) for t in outputs], [CARRIED.get(t.dtype, t.dtype.upper()) for t in outputs]


def _stand_in(name: str, symbol: Any) -> Tensor:
    """Something of the type and shape of an output, so that the layers behind are checked."""
    return Tensor(name, CARRIED.get(symbol.dtype, "FLOAT32"), tuple(1 if d is None else d for d in symbol.shape))


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters in order, none where Python does not know them."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _predicting(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with ``training`` off where there is such."""
    parameters = _parameters(function)
    if not parameters:
        return dict(kwargs)
    kwargs = {name: value for name, value in kwargs.items() if value is not None or name not in ("mask", "training")}
    return {**kwargs, "training": False} if "training" in parameters else dict(kwargs)


def _refuse_masks(layer: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
    """UnsupportedOperatorError for a layer with an importer that is given a mask, by name or by place, which the
    importer would not look at."""
    if not isinstance(layer, keras.layers.Layer):
        return
    given = {**dict(zip(_parameters(layer.call), args, strict=False)), **kwargs}
    names = {n for n in given if n == "mask" or (n.endswith("_mask") and n != "use_causal_mask")}
    left = names - set(MASKS.get(type(layer).__name__, ()))
    if any(v is not None for name in left for v in keras.tree.flatten(given[name])):
        raise UnsupportedOperatorError(NO_MASKS)
