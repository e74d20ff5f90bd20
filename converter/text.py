"""Graphs as text, one line per node: for ``--dump`` and for tests that show what a pass does."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

import numpy as np

from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.printable import printable
from twinfer.runtime.read import schema

#: Constants of up to this many elements show their values.
SHOWN = 4


def text(graph: Graph) -> str:
    """The graph in lines: its inputs, its nodes in order of execution, its outputs.

    ``y INT8[1,4]*0.5-3 = ADD(x, INT8{1, 2}*0.5)  fused_activation_function=RELU``: scale behind ``*``, zero point
    behind its sign; constants without names, short ones with their values; options only where they are not the default.
    """
    lines = [f"input {_made(t)}" for t in graph.inputs]
    lines += [node_line(node) for node in graph.nodes]
    lines += [f"output {t.name}" for t in graph.outputs]
    return "".join(f"{printable(line, keep='')}\n" for line in lines)


def node_line(node: Node) -> str:
    defaults = schema.default_options(node.op)
    options = "".join(f" {k}={_value(v)}" for k, v in node.options.items() if k not in defaults or v != defaults[k])
    results, operands = ", ".join(map(_made, node.outputs)), ", ".join(map(_read, node.inputs))
    return f"{results} = {node.op}({operands}){' ' if options else ''}{options}"


def _read(tensor: Tensor | None) -> str:
    if tensor is None:
        return "-"
    if tensor.data is None:
        return tensor.name
    if tensor.size > SHOWN or tensor.data.size != tensor.size:
        return _made(tensor, "")
    return f"{tensor.type}{{{', '.join(f'{v:.6g}' for v in tensor.data.reshape(-1).tolist())}}}{_quant(tensor)}"


def _made(tensor: Tensor, name: str | None = None) -> str:
    name = tensor.name if name is None else name
    return f"{name} {tensor.type}[{','.join(map(str, tensor.shape))}]{_quant(tensor)}".strip()


def _quant(tensor: Tensor) -> str:
    quant = tensor.quant
    if quant is None or not quant.scale.size:
        return ""
    if quant.per_channel:
        return f"*{quant.scale.size} scales"
    zero = int(quant.zero_point[0]) if quant.zero_point.size else 0
    return f"*{quant.scale[0]:.6g}{zero:+d}" if zero else f"*{quant.scale[0]:.6g}"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if is_dataclass(value):
        return type(value).__name__
    return str(np.array(value).tolist()) if isinstance(value, tuple | list | np.ndarray) else str(value)
