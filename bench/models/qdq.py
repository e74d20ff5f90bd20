"""Values and nodes of an ONNX model in QDQ form, which onnxruntime fuses into its integer kernels.

Around a quantised operator stand DequantizeLinear and QuantizeLinear; operators that only move values take integers.
These are uint8, 128 more than TFLite's int8: the same model, in the type that onnxruntime's x86 kernels are made for.
Values of four dimensions are NCHW from one operator to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor
from twinfer.runtime.op import Shape
from twinfer.runtime.ops.core.activation import FLOAT_MAX, float_range, quantized_range

if TYPE_CHECKING:
    import onnx

#: The types of values, and as what they are stored.
STORED: Mapping[str, np.dtype[Any]] = {"FLOAT32": np.dtype(np.float32), "INT8": np.dtype(np.uint8)}

#: What is added to int8.
OFFSET = 128

#: What onnxruntime has known since 1.14.
_OPSET, _IR = 17, 8


def other_sign(value: Array) -> Array:
    """int8 as uint8, ``OFFSET`` more, and uint8 as int8, less; float32 as it is."""
    if value.dtype == np.float32:
        return value
    other = np.uint8 if value.dtype == np.int8 else np.int8
    return (value.view(np.uint8) ^ np.uint8(OFFSET)).view(other)


def held(shape: Shape) -> Shape:
    """The shape that a value of TFLite's shape has between operators."""
    return (shape[0], shape[3], *shape[1:3]) if len(shape) == 4 else shape


def order(rank: int) -> Shape:
    """TFLite's dimensions, in their order between operators."""
    return held(tuple(range(rank)))


def moves(shape: Shape) -> bool:
    """Whether the elements lie in another order between operators."""
    return len(shape) == 4 and shape[3] > 1 and shape[1] * shape[2] > 1


def outer(shape: Shape) -> Shape:
    """Of an input or output: TFLite's; where no elements move, that between operators, which needs no Transpose."""
    return shape if moves(shape) else held(shape)


def need_types(who: object, tensors: Iterable[Tensor]) -> None:
    """ToolError unless all are float32 or int8."""
    for tensor in tensors:
        if tensor.type not in STORED:
            raise ToolError(f"ONNX files are made of FLOAT32 and INT8 alone, not {tensor} of {who}")


@dataclass(frozen=True)
class Value:
    """A value of the ONNX graph; ``shape`` is TFLite's."""

    name: str
    shape: Shape


@dataclass
class Writer:
    """An ONNX graph while it is written."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    values: dict[Tensor, Value] = field(default_factory=dict)

    # -- nodes and constants -------------------------------------------------------------------------------------------

    def add(self, op: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """Adds a node; the name of its output."""
        from onnx import helper

        output = to or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def constant(self, array: Array) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def parameters(self, node: Node, weights: Array, axis: int) -> list[str]:
        """Weights, whose output channels lie along ``axis``, and the bias of a layer, as real numbers."""
        bias = [node.constant(2).reshape(-1)] if node.optional(2) is not None else []
        if node.input(0).type == "FLOAT32":
            return [self.constant(array) for array in (weights, *bias)]
        x, w = node.input(0), node.input(1)
        quant = w.quant or Quant.per_tensor(w.scale)  # which raises
        sums = Quant((np.float64(x.scale) * quant.scale).astype(np.float32), np.zeros(quant.scale.shape, np.int64))
        return [self._real_constant(weights, quant, axis), *(self._real_constant(array, sums, 0) for array in bias)]

    def _real_constant(self, array: Array, quant: Quant, axis: int) -> str:
        """Integers as real numbers; several scales go along ``axis``."""
        scale, zero = quant.scale, quant.zero_point.astype(array.dtype)
        if not quant.per_channel:
            scale, zero = scale.reshape(()), zero.reshape(())
        names = (self.constant(part) for part in (array, scale, zero))
        return self.add("DequantizeLinear", *names, axis=axis)

    # -- values --------------------------------------------------------------------------------------------------------

    def stored(self, tensor: Tensor) -> Value:
        """The value as operators hand it on; that of a constant is written at its first use."""
        if tensor not in self.values:
            if tensor.data is None:
                raise ToolError(f"no ONNX file is made of variables: no operator writes {tensor}")
            data = other_sign(tensor.data).transpose(order(tensor.data.ndim))
            self.values[tensor] = Value(self.constant(data), tensor.shape)
        return self.values[tensor]

    def real(self, tensor: Tensor, shape: Shape | None = None) -> Value:
        """The value in float32, with its elements in TFLite's order in that shape."""
        value = self.reshaped(self.stored(tensor), tensor.shape if shape is None else shape)
        if tensor.type == "FLOAT32":
            return value
        return Value(self.add("DequantizeLinear", value.name, *self._quantisation(tensor)), value.shape)

    def store(self, node: Node, real: Value) -> None:
        """Hands on the output of a node: ``real``, with its fused activation, in the output's shape."""
        bounded = self._bounded if node.output.type == "FLOAT32" else self._quantised
        self.values[node.output] = self.reshaped(Value(bounded(node, real.name), real.shape), node.output.shape)

    def _bounded(self, node: Node, real: str) -> str:
        low, high = float_range(node)
        if high < FLOAT_MAX:
            return self.add("Clip", real, *(self.constant(np.array(bound, np.float32)) for bound in (low, high)))
        return self.add("Relu", real) if low == 0 else real

    def _quantised(self, node: Node, real: str) -> str:
        """Integers are clamped: a Clip before QuantizeLinear would keep the integer kernels away."""
        name = self.add("QuantizeLinear", real, *self._quantisation(node.output))
        bounds = [bound + OFFSET for bound in quantized_range(node, node.output)]
        if bounds == [0, 255]:
            return name
        return self.add("Clip", name, *(self.constant(np.array(bound, np.uint8)) for bound in bounds))

    def _quantisation(self, tensor: Tensor) -> tuple[str, str]:
        zero = np.array(tensor.zero + OFFSET, np.uint8)
        return self.constant(np.array(tensor.scale, np.float32)), self.constant(zero)

    # -- shapes --------------------------------------------------------------------------------------------------------

    def reshaped(self, value: Value, shape: Shape) -> Value:
        """The same elements, in TFLite's order, in another shape."""
        if value.shape == shape:
            return value
        sizes = self.constant(np.array(outer(shape), np.int64))
        return self.entered(self.add("Reshape", self.ordered(value), sizes), shape)

    def ordered(self, value: Value) -> str:
        """The value with its elements in TFLite's order, in the shape ``_outer``."""
        return self.add("Transpose", value.name, perm=(0, 2, 3, 1)) if moves(value.shape) else value.name

    def entered(self, name: str, shape: Shape) -> Value:
        """The value of which ``name`` is ``ordered``."""
        return Value(self.add("Transpose", name, perm=order(4)) if moves(shape) else name, shape)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def begin(self, inputs: Sequence[Tensor]) -> None:
        self.values |= {tensor: self.entered(f"input_{i}", tensor.shape) for i, tensor in enumerate(inputs)}

    def finish(self, graph: Graph) -> bytes:
        """The file: its inputs and outputs are in the graph's order, with their elements in TFLite's order."""
        from onnx import helper

        for i, tensor in enumerate(graph.outputs):
            self.add("Identity", self.ordered(self.stored(tensor)), to=f"output_{i}")
        ends = (_infos("input", graph.inputs), _infos("output", graph.outputs))
        whole = helper.make_graph(self.nodes, "model", *ends, self.constants)
        opsets = [helper.make_opsetid("", _OPSET)]
        content: bytes = helper.make_model(whole, opset_imports=opsets, ir_version=_IR).SerializeToString()
        return content


def _infos(what: str, tensors: Sequence[Tensor]) -> list[onnx.ValueInfoProto]:
    from onnx import helper

    kinds = {name: helper.np_dtype_to_tensor_dtype(dtype) for name, dtype in STORED.items()}
    return [
        helper.make_tensor_value_info(f"{what}_{i}", kinds[tensor.type], outer(tensor.shape))
        for i, tensor in enumerate(tensors)
    ]
