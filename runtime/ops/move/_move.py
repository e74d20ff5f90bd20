"""What the data movers share: axes, index arguments, and strided copies in as few dimensions as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import DTYPES, Array, Node, Tensor
from twinfer.runtime.op import Case, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.loops import LOOPS, filled
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.rows import Rows

#: Extent, and bytes between neighbours.
Axis = tuple[int, int]

#: Runs of more bytes are worth a call of memcpy each.
LONG_RUN = 256


def check_moved(node: Node, *moved: Tensor) -> None:
    """Raise unless ``moved`` and all outputs are of one type whose elements are whole bytes."""
    for t in (*moved, *node.outputs):
        if t.type not in DTYPES:
            raise unsupported(node, f"{t} has no elements of fixed size in bytes; move it unpacked")
        need(t.type == moved[0].type, node, f"{t} must have the type of {moved[0]}")


def check_arity(node: Node, inputs: int, outputs: int | None = 1) -> None:
    """Raise ModelError unless the node has that many inputs and (None: any number of) outputs."""
    need(len(node.inputs) == inputs, node, f"it has {len(node.inputs)} inputs, {node.op} takes {inputs}")
    need(outputs in (None, len(node.outputs)), node, f"it has {len(node.outputs)} outputs, {node.op} makes {outputs}")


def mover(node: Node, inputs: int, *, alike: bool = False) -> Tensor:
    """Input 0, which the node moves to its one output; raises as the two checks above do.

    ``alike``: also unless input and output are quantised alike.
    """
    check_arity(node, inputs)
    x = node.input(0)
    check_moved(node, x)
    if alike and not same_meaning(x, node.output):
        raise unsupported(node, f"{x} and {node.output} must be quantised alike: requantise them")
    return x


def indices(node: Node, i: int, count: int | None = None) -> list[int]:
    """Integers of the constant input ``i``; ModelError unless there are ``count`` of them (None: any number)."""
    need_type(node, node.input(i), "INT32", "INT64", "INT16", "INT8")
    values = [int(v) for v in node.constant(i).reshape(-1)]
    need(count in (None, len(values)), node, f"input {i} ({node.input(i)}) must have {count} elements")
    return values


def axis_in(node: Node, axis: int, rank: int) -> int:
    """The axis counted from the front; ModelError if it is outside ``rank``."""
    need(-rank <= axis < rank, node, f"axis {axis} is outside rank {rank}")
    return axis % rank


def same_meaning(a: Tensor, b: Tensor) -> bool:
    """Whether integers may pass from ``a`` to ``b`` unchanged: converting them would round every one to itself.

    Values are less than 2**bits steps from the zero point, so a ratio of scales within 0.5 / 2**bits of 1 changes none.
    """
    if a.quant is None or b.quant is None or a.dtype.kind not in "iu" or a.quant == b.quant:
        return True
    if a.quant.per_channel or b.quant.per_channel:
        return False
    return a.zero == b.zero and abs(a.scale - b.scale) * 2 ** (8 * a.dtype.itemsize) < 0.5 * b.scale


def steps(shape: Shape, size: int) -> list[int]:
    """Distance in bytes of neighbours along every axis of a dense tensor with elements of ``size`` bytes."""
    distances = [size]
    for n in shape[:0:-1]:
        distances.append(distances[-1] * n)
    return distances[::-1][-len(shape) :] if shape else []


def collapse(axes: Sequence[Axis], size: int) -> tuple[list[Axis], int]:
    """Drop axes of extent 1, merge evenly spaced ones, and make contiguous ones part of the element."""
    merged: list[Axis] = []
    for n, step in axes:
        if n == 1:
            continue
        if merged and merged[-1][1] == n * step:
            merged[-1] = (merged[-1][0] * n, step)
        else:
            merged.append((n, step))
    if merged and merged[-1][1] == size:
        size *= merged.pop()[0]
    return merged, size


def copy_call(node: Node) -> Call:
    """The call that copies input 0 to output 0; it does nothing if planned in place."""
    size, by_rows = node.output.nbytes, Rows(counts=("size",), flat=True)
    return Call("tw_copy", {"size": size}, (node.input(0),), (node.output,), inplace=(0,), rows=by_rows)


def known_call(node: Node, value: Array) -> Call:
    """The call that copies a value which is known when planning."""
    return Call("tw_copy", {"size": node.output.nbytes}, (constant.index(value),), (node.output,))


def slice_call(node: Node, start: int, axes: Sequence[Axis]) -> Call:
    """The call that fills output 0, which is dense, from input 0 along ``axes``, from byte ``start`` on."""
    x, y = node.input(0), node.output
    merged, size = collapse(axes, x.dtype.itemsize)
    if y.size == 0 or (not merged and size == x.nbytes):
        return copy_call(node)
    if len(merged) > LOOPS + 1:
        raise unsupported(node, f"{x} needs {len(merged)} loops, {LOOPS + 1} are the limit; use fewer dimensions")
    *loops, (count, step) = merged or [(1, 0)]
    params: dict[str, Param] = {
        "start": start, "size": size, "count": count, "step": step,
        "n": filled([n for n, _ in loops], 1), "steps": filled([distance for _, distance in loops], 0),
    }  # fmt: skip
    return Call("tw_slice", params, (x,), (y,), rows=_sliced_rows(x, y, start, axes, len(loops)))


def _sliced_rows(x: Tensor, y: Tensor, start: int, axes: Sequence[Axis], loops: int) -> Rows | None:
    """How a slice of an image computes rows one by one, if row r of the output is a part of row r."""
    if not len(x.shape) == len(y.shape) == len(axes) == 4 or x.shape[0] != 1 or x.shape[1] != y.shape[1]:
        return None
    row = x.nbytes // x.shape[1]
    if axes[1] != (x.shape[1], row) or start >= row:
        return None
    return Rows(counts=(f"n.{LOOPS - loops}" if loops else "count",))


def run_params(outer: int, runs: Sequence[int]) -> tuple[dict[str, int], tuple[Constant, ...]]:
    """Params for joining or splitting runs of bytes, and the table of the runs where they are not all equal.

    Equal runs are copied by a kernel for their size; others in words that divide them all, long ones by memcpy.
    """
    if len(set(runs)) == 1:
        return {"count": len(runs), "outer": outer, "run": runs[0]}, ()
    word = 0 if min(runs) > LONG_RUN else math.gcd(16, *runs)
    params = {"count": len(runs), "outer": outer, "total": sum(runs), "word": word}
    return params, (constant.index(np.array(runs, np.int32)),)


def index(values: Sequence[int], type: str = "INT32", shape: Shape | None = None) -> Tensor:
    """A constant index tensor, for ``cases``."""
    return tensor((len(values),) if shape is None else shape, type, data=np.array(values))


def example(type: str, shape: Shape) -> Tensor:
    """A tensor of the type, with a scale if it is int8, for ``cases``."""
    return tensor(shape, type, 0.5, -7) if type == "INT8" else tensor(shape, type)


def case(op: str, inputs: Sequence[Tensor], shapes: Sequence[Shape], oracle: str = "tflm", **options: object) -> Case:
    """A case whose outputs have type and quantisation of the first input that is fed."""
    x = next(t for t in inputs if t.data is None)
    outputs = tuple(Tensor("y", x.type, tuple(shape), x.quant) for shape in shapes)
    return Case(Node(op, tuple(inputs), outputs, options), oracle=oracle)
