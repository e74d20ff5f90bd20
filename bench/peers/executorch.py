"""ExecuTorch on one thread, in float32, by its XNNPACK backend. A call goes through its Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.models.qdq import outer
from twinfer.bench.peers.engines import Function, Peer, silence
from twinfer.runtime.graph import Array
from twinfer.runtime.read.tflite import read


class ExecuTorch(Function):
    def __init__(self, model: bytes, outputs: int) -> None:
        graph = read(model)
        if any(end.type != "FLOAT32" for end in (*graph.inputs, *graph.outputs)):
            raise RuntimeError("it takes float32 models alone")
        with silence():
            import torch
            from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
            from executorch.exir import to_edge_transform_and_lower
            from executorch.runtime import Runtime

        examples = tuple(torch.zeros(outer(tensor.shape)) for tensor in graph.inputs)
        torch.set_num_threads(1)
        with silence():
            exported = torch.export.export(_module(onnx_graph(graph)), examples)
            lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
            self._program = Runtime.get().load_program(lowered.to_executorch().buffer)
            method = self._program.load_method("forward")
        super().__init__(graph, lambda *inputs: method.execute(inputs), torch.from_numpy)

    def host(self, result: Any) -> Array:
        return np.asarray(result.numpy())


def _module(content: bytes) -> Any:
    """The ONNX file of a graph as a PyTorch module, whose parameters are the file's constants."""
    import onnx
    import torch

    graph = onnx.load_from_string(content).graph
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "Gemm":  # as XNNPACK has weights; it takes no layer whose weights are turned by an operator
            constants[node.input[1]] = constants[node.input[1]].T

    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, value in constants.items():
                self.register_buffer(name, torch.from_numpy(np.array(value, order="C")))

        def forward(self, *inputs: Any) -> tuple[Any, ...]:
            values = dict(self.named_buffers())
            values |= {tensor.name: value for tensor, value in zip(graph.input, inputs, strict=True)}
            for node in graph.node:
                options = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
                known = [constants.get(name) for name in node.input]
                (output,) = node.output
                values[output] = _computed(node.op_type, [values[name] for name in node.input], known, options)
            return tuple(values[tensor.name] for tensor in graph.output)

    return Module().eval()


def _computed(op: str, inputs: Sequence[Any], known: Sequence[Any], options: dict[str, Any]) -> Any:
    """An ONNX node that ``onnx_graph`` writes, by functions of PyTorch. known: those inputs that are constants."""
    import torch
    from torch.nn import functional

    x = inputs[0]
    top, left, bottom, right = options.get("pads", (0, 0, 0, 0))
    even = (top, left) == (bottom, right)
    match op:
        case "Conv":
            x = x if even else functional.pad(x, (left, right, top, bottom))
            bias = inputs[2] if len(inputs) > 2 else None
            padding = (top, left) if even else (0, 0)
            strides, dilations = options["strides"], options["dilations"]
            return functional.conv2d(x, inputs[1], bias, strides, padding, dilations, options["group"])
        case "MaxPool":
            x = x if even else functional.pad(x, (left, right, top, bottom), value=-torch.inf)
            return functional.max_pool2d(x, options["kernel_shape"], options["strides"], (top, left) if even else 0)
        case "AveragePool" if even:
            window = options["kernel_shape"], options["strides"], (top, left)
            return functional.avg_pool2d(x, *window, count_include_pad=False)
        case "GlobalAveragePool":
            return x.mean((2, 3), keepdim=True)
        case "ReduceMean":
            return x.mean(options["axes"], keepdim=True)
        case "Gemm":
            return functional.linear(x, inputs[1], inputs[2] if len(inputs) > 2 else None)
        case "Add":
            return x + inputs[1]
        case "Mul":
            return x * inputs[1]
        case "Clip":
            return x.clamp(float(known[1]), float(known[2]))
        case "Relu":
            return x.relu()
        case "Softmax":
            return x.softmax(options["axis"])
        case "Pad":
            axes = len(known[1]) // 2
            pairs = [int(known[1][i + side * axes]) for i in reversed(range(axes)) for side in (0, 1)]
            return functional.pad(x, pairs, value=float(known[2]))
        case "Reshape":
            return x.reshape([int(size) for size in known[1]])
        case "Transpose":
            return x.permute(*options["perm"])
        case "Identity":
            return x
    raise RuntimeError(f"there is no rule for {op} yet")


PEER = Peer(
    name="executorch", label="ExecuTorch", heading="ExecuTorch", module="executorch", package="executorch",
    open=ExecuTorch, aborts=True,
)  # fmt: skip
