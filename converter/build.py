"""Builds graphs by hand, for tests, benchmarks and converters::

b = Builder("tiny")
x = b.input("x", "INT8", (1, 8, 8, 3), scale=0.5, zero=3)
w = b.constant(weights, scale=[0.1, 0.2, 0.3, 0.4])         # int8 [4, 3, 3, 3], per channel along axis 0
y = b.op("CONV_2D", [x, w, bias], scale=0.25, padding="SAME", stride_h=1, stride_w=1)
y = b.op("RESHAPE", [y, np.array([1, 256], np.int32)], shape=(1, 256))
graph = b.graph([y])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.check import check
from twinfer.runtime.errors import InvalidArgumentError, ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, EMPTY, PACKED_BITS, Graph, Node, Quant, Signature, Tensor
from twinfer.runtime.read import schema
from twinfer.runtime.read.packed import pack
from twinfer.runtime.registry import operator

Shape = Sequence[int]
Scale = float | Sequence[float] | NDArray[Any] | None
Zero = int | Sequence[int] | NDArray[Any]
Input = Tensor | NDArray[Any] | None

#: The name of each type by its dtype.
TYPES = {dtype: name for name, dtype in DTYPES.items()}


def quantisation(scale: Scale, zero: Zero = 0, axis: int = 0) -> Quant | None:
    """Per tensor for single numbers, per channel along ``axis`` for sequences; None without a scale."""
    if scale is None:
        return None
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    return Quant(scales, np.broadcast_to(np.asarray(zero, np.int64), scales.shape).copy(), axis)


class Builder:
    """Collects tensors and nodes; operators must be added in execution order."""

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self.tensors: dict[Tensor, None] = {}  # an ordered set
        self.inputs: list[Tensor] = []
        self.nodes: list[Node] = []

    def input(self, name: str, type: str, shape: Shape, scale: Scale = None, zero: Zero = 0) -> Tensor:
        """Adds a graph input. Inputs keep the order of the calls."""
        tensor = self.add(Tensor(name, _known(type), tuple(shape), quantisation(scale, zero)))
        self.inputs.append(tensor)
        return tensor

    def variable(self, name: str, type: str, shape: Shape, scale: Scale = None, zero: Zero = 0) -> Tensor:
        """A tensor that keeps its value between runs (the state of SVDF or LSTM)."""
        return self.add(Tensor(name, _known(type), tuple(shape), quantisation(scale, zero), variable=True))

    def constant(
        self, data: NDArray[Any], scale: Scale = None, zero: Zero = 0, *, axis: int = 0, name: str = "", type: str = ""
    ) -> Tensor:
        """A constant; its type follows from the dtype. With ``type`` INT4, UINT4 or INT2 the integers are packed."""
        name = name or f"constant_{len(self.tensors)}"
        kind = type or TYPES.get(data.dtype.newbyteorder("<"), "")
        packed = PACKED_BITS.get(kind, 8) < 8 and data.dtype.kind in "iu"
        if not packed and DTYPES.get(kind) != data.dtype:
            what = f"as {type}" if type else "in any tensor"
            raise InvalidArgumentError(f"constant {name!r}: values of dtype {data.dtype} cannot be stored {what}")
        stored = pack(data, PACKED_BITS[kind]) if packed else np.array(data, DTYPES[kind])
        stored.flags.writeable = False
        return self.add(Tensor(name, kind, data.shape, quantisation(scale, zero, axis), stored))

    def op(
        self,
        op: str,
        inputs: Sequence[Input],
        shape: Shape | None = None,
        type: str | None = None,
        scale: Scale = None,
        zero: Zero = 0,
        **options: Any,
    ) -> Tensor:
        """An operator with one output, which is returned.

        What is not given follows: the shape from the operator's rule, type and quantisation from input 0 (the
        quantisation only where the type is the same). Arrays among ``inputs`` become constants, None is absent.
        """
        tensors = self._inputs(inputs)
        first = tensors[0] if tensors else None
        kind = type or (first.type if first else "FLOAT32")
        quant = quantisation(scale, zero)
        if quant is None and first is not None and kind == first.type:
            quant = first.quant
        out = Tensor(f"{op.lower()}_{len(self.tensors)}", _known(kind), tuple(shape or ()), quant)
        if shape is None:
            node = Node(op, tensors, (out,), _options(op, options), index=len(self.nodes))
            out = replace(out, shape=_infer(node))
        return self.node(op, tensors, [out], options)[0]

    def node(
        self,
        op: str,
        inputs: Sequence[Input],
        outputs: Sequence[Tensor],
        options: Mapping[str, Any] = EMPTY,
        *,
        version: int = 1,
        extra: Mapping[str, Any] = EMPTY,
    ) -> tuple[Tensor, ...]:
        """An operator with any number of outputs (``runtime.op.tensor`` makes them), which are returned.

        InvalidArgumentError for options that the operator does not have.
        """
        node = Node(op, self._inputs(inputs), tuple(outputs), _options(op, options), version, len(self.nodes), extra)
        self.nodes.append(node)
        return tuple(self.add(tensor) for tensor in outputs)

    def add(self, tensor: Tensor) -> Tensor:
        """Adds a tensor made elsewhere; one that is in the graph already stays where it is."""
        self.tensors.setdefault(tensor)
        return tensor

    def graph(self, outputs: Sequence[Tensor], *, signature: str = "", subgraphs: Sequence[Graph] = ()) -> Graph:
        """The finished graph, checked. ``signature``: the key of a signature over all inputs and outputs."""
        results = {tensor.name: tensor for tensor in outputs}
        arguments = {tensor.name: tensor for tensor in self.inputs}
        graph = Graph(
            name=self.name,
            tensors=tuple(self.tensors),
            nodes=tuple(self.nodes),
            inputs=tuple(self.inputs),
            outputs=tuple(outputs),
            signatures=(Signature(signature, arguments, results),) if signature else (),
            subgraphs=tuple(subgraphs),
        )
        check(graph)
        return graph

    def _inputs(self, inputs: Sequence[Input]) -> tuple[Tensor | None, ...]:
        return tuple(self.constant(value) if isinstance(value, np.ndarray) else value for value in inputs)


def _known(type: str) -> str:
    if type not in schema.ENUMS["TensorType"].names:
        raise InvalidArgumentError(f"{type!r} is not a tensor type; there are: {schema.ENUMS['TensorType']}")
    return type


def _options(op: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options with the format's defaults filled in."""
    if op not in schema.ENUMS["BuiltinOperator"].names and not op.startswith("CUSTOM:"):
        raise InvalidArgumentError(f"TFLite has no operator {op!r}; custom operators are called CUSTOM:name")
    options = schema.default_options(op)
    for name, value in given.items():
        if name not in options:
            raise InvalidArgumentError(f"{op} has no option {name!r}; it has: {', '.join(options) or 'none'}")
        options[name] = tuple(value) if isinstance(value, list) else value
    return MappingProxyType(options)


def _infer(node: Node) -> tuple[int, ...]:
    """The shape of output 0 by the operator's own rule."""
    try:
        shape, *_ = operator(node).infer(node)
    except UnsupportedOperatorError as error:
        raise UnsupportedOperatorError(
            f"{node}: its output's shape cannot be inferred, give shape=…: {error}"
        ) from None
    except ModelError as error:
        raise ModelError(f"{node}: its output's shape cannot be inferred: {error}") from None
    return tuple(shape)
