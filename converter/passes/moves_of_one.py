"""Moves that are spelled out by several operators become the operator for them, in whatever way they are written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.passes._rewrite import Change, View, constant, new_node, rewrite, touches_state, works
from twinfer.converter.table import row_of
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.registry import operator
from twinfer.runtime.shapes import is_open

#: Where the pipeline runs the pass (``passes/__init__.py``): before transposes move.
PLACES = (13,)

#: How many operators a move may have, how many elements are followed, and how far a TRANSPOSE is looked for.
_MOST, _ELEMENTS, _FAR = 16, 1 << 21, 6

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)

#: Operators that are worth it even if they need as many others beside them.
_WORTH = frozenset({"DEPTH_TO_SPACE", "MIRROR_PAD", "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_DEPTH"})

#: Operators that move nothing.
_FREE = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")

#: Where every element of a result comes from, as places in the flat source.
Places = NDArray[np.int64]

#: An operator, its constants, the shape of its result, and its options.
Step = tuple[str, Sequence[Any], tuple[int, ...], dict[str, Any]]


def moves_of_one(graph: Graph) -> Graph:
    """SPACE_TO_DEPTH, DEPTH_TO_SPACE, MIRROR_PAD, RESIZE_NEAREST_NEIGHBOR, the shuffle of channels, slices and GATHER
    that are written by several RESHAPEs, TRANSPOSEs, slices, CONCATENATIONs and the like become these, for images in
    NCHW between transposes: where each element comes from tells what it is. What takes one operand of a CONCATENATION
    out of it reads the operand."""
    return rewrite(graph, lambda view, node: _of_joined(view, node) or _recognise(view, node))


def _recognise(view: View, node: Node) -> Change | None:
    if not _moves(node) or len(node.outputs) != 1:
        return None
    for region, source in reversed(list(_regions(view, node))):
        y = node.output
        if source.quant != y.quant or max(source.size, y.size) > _ELEMENTS or not source.size:
            continue
        ops = [n.op for n in region]
        places = None if ops == ["TRANSPOSE", "RESHAPE"] or ops == ["RESHAPE", "TRANSPOSE"] else _places(region, source)
        for steps in () if places is None else _forms(view, places, source, y, ops):
            new = [step[0] for step in steps]
            if new == ops:
                break  # it is spelled so already
            if _better(new, ops):
                nodes = _written(steps, source, y)
                return Change(tuple(region), tuple(nodes)) if all(map(works, nodes)) else None
    return None


def _of_joined(view: View, node: Node) -> Change | None:
    """A part of what CONCATENATION joins, through operators that move elements, where it is one of its operands: the
    last step's output of a recurrent layer, say."""
    if node.op not in ("GATHER", "SLICE", "STRIDED_SLICE") or not _moves(node) or not node.output.size:
        return None
    region, y = [node], node.output
    maker = view.producer(_carried(node)[0])
    while maker is not None and maker.op != "CONCATENATION" and len(region) < _MOST:
        if not _moves(maker) or len(_carried(maker)) != 1 or len(maker.outputs) != 1:
            return None
        region, maker = [maker, *region], view.producer(_carried(maker)[0])
    if maker is None or maker.op != "CONCATENATION" or not _moves(maker) or maker.output.size > _ELEMENTS:
        return None
    parts = [t for t in _carried(maker) if (t.size, t.quant) == (y.size, y.quant)]
    places = _places(region, maker.output) if parts else None
    numbers = [np.full(t.shape, i) for i, t in enumerate(_carried(maker))]
    owners = None if places is None else np.concatenate(numbers, maker.options["axis"]).reshape(-1)[places]
    if places is None or owners is None or (owners != owners.flat[0]).any() or (np.diff(places.reshape(-1)) < 1).any():
        return None
    part = _carried(maker)[int(owners.flat[0])]
    return Change((node,), tuple(_written([_reshape(y.shape)], part, y))) if part in parts else None


def _better(new: Sequence[str], old: Sequence[str]) -> bool:
    """Whether fewer elements are moved, where reshapes move none, or another operator has a name of its own."""
    named = bool(_WORTH & set(new)) and not _WORTH & set(old)
    turned = old == ["RESHAPE", "TRANSPOSE", "RESHAPE"]
    moved = [[op for op in ops if op not in _FREE] for ops in (new, old)]
    return len(moved[0]) < len(moved[1]) or (len(new) <= len(old) + 3 and (named or turned))


def _moves(node: Node) -> bool:
    """Whether the operator only moves elements of what it is given, to places that are known."""
    row = row_of(node)
    active = node.options.get("fused_activation_function", "NONE") != "NONE"
    if row.moves is None or row.fills or row.padding or active or touches_state(node):  # a maximum has padding
        return False
    carried = row.carrying(node)
    known = all(t is None or (t.data is None) == (i in carried) for i, t in enumerate(node.inputs))
    return known and not any(t is None or is_open(t) for t in (*_carried(node), *node.outputs))


def _carried(node: Node) -> list[Tensor]:
    return [node.input(i) for i in row_of(node).carrying(node)]


def _regions(view: View, node: Node) -> Iterator[tuple[list[Node], Tensor]]:
    """Ever more operators that end with this one and whose values come from one tensor, and that tensor."""
    region = [node]
    while len(region) <= _MOST:
        inner = {t for each in region for t in each.outputs}
        sources = list(dict.fromkeys(t for n in region for t in _carried(n) if t not in inner))
        if len(sources) == 1 and (len(region) > 1 or node.op == "GATHER"):
            yield region, sources[0]
        more = next((maker for t in sources if (maker := _absorbed(view, t, region)) is not None), None)
        if more is None:
            return
        region = [more, *region]


def _absorbed(view: View, tensor: Tensor, region: Sequence[Node]) -> Node | None:
    """The maker of a tensor if it only moves elements, and nobody but these nodes reads what it makes."""
    maker = view.producer(tensor)
    if maker is None or not _moves(maker) or any(t in view.public for t in maker.outputs):
        return None
    return maker if all(reader in region for t in maker.outputs for reader in view.consumers.get(t, ())) else None


def _places(region: Sequence[Node], source: Tensor) -> Places | None:
    """What the operators, by their references, make of the places of the source's elements; None if one fails."""
    known: dict[Tensor, NDArray[Any]] = {source: np.arange(source.size, dtype=np.int32).reshape(source.shape)}
    ahead = list(region)
    while ahead:
        node = next(n for n in ahead if all(t in known for t in _carried(n)))
        ahead.remove(node)
        plain = [t if t is None or t.data is not None else replace(t, type="INT32", quant=None) for t in node.inputs]
        results = tuple(replace(t, type="INT32", quant=None) for t in node.outputs)
        single = replace(node, inputs=tuple(plain), outputs=results)
        try:
            made = operator(single).reference(single, [t if t is None else known.get(t, t.data) for t in node.inputs])
        except (TwinferError, ValueError, IndexError, KeyError):
            return None
        known.update(zip(node.outputs, made, strict=True))
    return np.asarray(known[region[-1].output], np.int64)


def _forms(view: View, places: Places, x: Tensor, y: Tensor, ops: Sequence[str]) -> Iterator[list[Step]]:
    """Operators that put elements there, the best ones first."""
    found = False
    if len(x.shape) == 4:
        for before, behind in itertools.product((None, NHWC), (None, NCHW)):
            more = (before is not None) + (behind is not None)
            if (behind is not None and places.ndim != 4) or (more > ops.count("TRANSPOSE") and not _beside(view, x, y)):
                continue
            for steps in _of_image(places, x.shape, before, behind):
                found = True
                yield steps
    plain = None if found else _plain(places, x.shape)
    if plain is not None and (plain[0] != "GATHER" or "GATHER" in ops):
        yield [plain]


def _beside(view: View, x: Tensor, y: Tensor) -> bool:
    """Whether a TRANSPOSE comes before x or behind y with nothing but element-wise operators between."""
    maker = view.producer(x)
    for _ in range(_FAR):
        if maker is None or maker.op == "TRANSPOSE" or not row_of(maker).elementwise:
            break
        maker = view.producer(maker.input(0))
    reader: Node | None = next(iter(view.consumers.get(y, ())), None)
    for _ in range(_FAR):
        if reader is None or reader.op == "TRANSPOSE" or not row_of(reader).elementwise:
            break
        reader = next(iter(view.consumers.get(reader.output, ())), None)
    return any(node is not None and node.op == "TRANSPOSE" for node in (maker, reader))


def _of_image(
    places: Places, shape: tuple[int, ...], before: tuple[int, ...] | None, behind: tuple[int, ...] | None
) -> Iterator[list[Step]]:
    """Forms of a move of an image, which is turned before and its result behind."""
    result, first, last = places.shape, list[Step](), list[Step]()
    if before is not None:
        at = np.empty(math.prod(shape), np.int64)
        at[np.arange(at.size).reshape(shape).transpose(before).reshape(-1)] = np.arange(at.size)
        places, shape = at[places], tuple(shape[i] for i in before)
        first = [("TRANSPOSE", [np.array(before, np.int32)], shape, {})]
    if behind is not None:
        places = places.transpose(NHWC)
        last = [("TRANSPOSE", [np.array(behind, np.int32)], result, {})]
    for steps in (_blocks(places, shape), _larger(places, shape), _shuffle(places, shape)):
        if steps:
            yield [*first, *steps, *last]


def _blocks(places: Places, shape: tuple[int, ...]) -> list[Step] | None:
    """SPACE_TO_DEPTH or DEPTH_TO_SPACE of NHWC, with channels in another order before or behind."""
    n, h, w, c = shape
    depth = places.shape[-1]
    block = math.isqrt(max(depth, c) // max(min(depth, c), 1))
    small, large = min(depth, c), max(depth, c)
    if block < 2 or small * block**2 != large or places.size != math.prod(shape):
        return None
    source = np.arange(places.size)
    if depth > c and not (h % block or w % block):
        whole = (n, h // block, w // block, depth)
        cells = source.reshape(n, h // block, block, w // block, block, c)
        turned = cells.transpose(0, 1, 3, 2, 4, 5).reshape(whole)
        order = _order(turned[0, 0, 0], places.reshape(-1, depth)[0])
        if order is None or not np.array_equal(turned[..., order].reshape(-1), places.reshape(-1)):
            return None
        step: Step = ("SPACE_TO_DEPTH", [], whole, {"block_size": block})
        return _shaped([step, *_in_order(order, whole)], whole, places.shape)
    whole = (n, h * block, w * block, depth)
    if depth >= c or places.shape != whole:
        return None
    order = places[0, :block, :block].reshape(-1)
    if not np.array_equal(np.sort(order), np.arange(c)):
        return None
    cells = source.reshape(shape)[..., order].reshape(n, h, w, block, block, depth)
    if not np.array_equal(cells.transpose(0, 1, 3, 2, 4, 5).reshape(whole), places):
        return None
    return [*_in_order(order, shape), ("DEPTH_TO_SPACE", [], whole, {"block_size": block})]


def _order(of: Places, wanted: Places) -> Places | None:
    """Which of these numbers are wanted, in their order; None if others are."""
    at = {int(value): i for i, value in enumerate(of)}
    found = [at.get(int(value), -1) for value in wanted]
    return None if -1 in found else np.array(found)


def _in_order(order: Places, shape: tuple[int, ...]) -> list[Step]:
    """Channels in that order: nothing, or GATHER."""
    same = np.array_equal(order, np.arange(shape[-1]))
    return [] if same else [("GATHER", [order.astype(np.int32)], shape, {"axis": len(shape) - 1})]


def _shaped(steps: list[Step], shape: tuple[int, ...], wanted: tuple[int, ...]) -> list[Step]:
    return steps if shape == wanted else [*steps, _reshape(wanted)]


def _reshape(shape: tuple[int, ...]) -> Step:
    return "RESHAPE", [np.array(shape, np.int32)], shape, {"new_shape": shape}


def _larger(places: Places, shape: tuple[int, ...]) -> list[Step] | None:
    """An image whose rows and columns are repeated; in the result they may still have dimensions of their own."""
    h, w, c = shape[1:]
    if places.shape[0] != shape[0] or places.shape[-1] != c or places.size <= math.prod(shape):
        return None
    times = places.size // math.prod(shape)
    for tall in (k for k in range(1, times + 1) if times % k == 0):
        whole = (shape[0], h * tall, w * (times // tall), c)
        rows, columns = np.repeat(np.arange(h), tall), np.repeat(np.arange(w), times // tall)
        source = np.arange(math.prod(shape)).reshape(shape)
        if places.ndim == 4 and places.shape != whole:
            continue
        if np.array_equal(source[:, rows][:, :, columns].reshape(-1), places.reshape(-1)):
            step: Step = ("RESIZE_NEAREST_NEIGHBOR", [np.array(whole[1:3], np.int32)], whole, {})
            return _shaped([step], whole, places.shape)
    return None


def _shuffle(places: Places, shape: tuple[int, ...]) -> list[Step] | None:
    """Channels in groups, and of every group the first, of every group the second, …"""
    axes = _axes(places, shape)
    if axes is None or _changed(axes, shape) != [3]:
        return None
    c, order = shape[3], axes[3]
    groups = next((g for g in range(2, c) if c % g == 0 and order.tolist()[:2] == [0, c // g]), None)
    if groups is None or not np.array_equal(order, np.arange(c).reshape(groups, -1).T.reshape(-1)):
        return None
    split = (math.prod(shape[:3]), groups, c // groups)
    turned: Step = ("TRANSPOSE", [np.array((0, 2, 1), np.int32)], (split[0], split[2], groups), {})
    return [_reshape(split), turned, _reshape(shape)]


def _axes(places: Places, shape: tuple[int, ...]) -> list[Places] | None:
    """For every dimension the places along it that the result takes; None if dimensions are mixed."""
    if places.ndim != len(shape) or not places.size:
        return None
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    lines = [np.moveaxis(places, i, 0).reshape(n, -1)[:, 0] for i, n in enumerate(places.shape)]
    axes = [line // stride % n for line, stride, n in zip(lines, strides, shape, strict=True)]
    rebuilt = sum(np.ix_(*(axis * stride for axis, stride in zip(axes, strides, strict=True))))
    return axes if np.array_equal(rebuilt, places) else None


def _changed(axes: Sequence[Places], shape: tuple[int, ...]) -> list[int]:
    return [i for i, n in enumerate(shape) if not np.array_equal(axes[i], np.arange(n))]


def _plain(places: Places, shape: tuple[int, ...]) -> Step | None:
    """One operator for a move along each dimension for itself."""
    if places.size == math.prod(shape) and np.array_equal(places.reshape(-1), np.arange(places.size)):
        return _reshape(places.shape)
    axes = _axes(places, shape)
    if axes is None:
        return None
    changed = _changed(axes, shape)
    for mode in ("REFLECT", "SYMMETRIC"):
        around = [_around(axis, n, mode) for axis, n in zip(axes, shape, strict=True)]
        if None not in around:
            return "MIRROR_PAD", [np.array(around, np.int32)], places.shape, {"mode": mode}
    steps = [int(axis[1] - axis[0]) if len(axis) > 1 else 1 for axis in axes]
    if all(s and (np.diff(axis) == s).all() for s, axis in zip(steps, axes, strict=True)):
        begins, ends = [int(axis[0]) for axis in axes], [int(axis[-1]) + s for s, axis in zip(steps, axes, strict=True)]
        if all(s == 1 for s in steps):
            return "SLICE", [np.array(v, np.int32) for v in (begins, places.shape)], places.shape, {}
        mask = sum(1 << i for i, end in enumerate(ends) if end < 0)
        numbers = [np.array(v, np.int32) for v in (begins, [max(end, 0) for end in ends], steps)]
        return "STRIDED_SLICE", numbers, places.shape, {"end_mask": mask}
    if len(changed) == 1:
        return "GATHER", [axes[changed[0]].astype(np.int32)], places.shape, {"axis": changed[0]}
    return None


def _around(axis: Places, n: int, mode: str) -> tuple[int, int] | None:
    """How much of the other side a dimension gets before and behind it; None if it is something else."""
    more = len(axis) - n
    least = 1 if mode == "REFLECT" else 0
    for before in {0, int(axis[0]) + 1 - least}:
        behind = more - before
        if 0 <= before <= n - least and 0 <= behind <= n - least:
            padded = np.pad(np.arange(n), (before, behind), "reflect" if least else "symmetric")
            if np.array_equal(padded, axis):
                return before, behind
    return None


def _written(steps: Sequence[Step], x: Tensor, y: Tensor) -> list[Node]:
    nodes = []
    for i, (op, constants, shape, options) in enumerate(steps):
        last = i == len(steps) - 1
        out = y if last else replace(y, name=f"{y.name}/{op.lower()}_{i}", shape=shape, shape_signature=())
        known = [constant(np.asarray(value), f"{out.name}/{j}") for j, value in enumerate(constants)]
        nodes.append(new_node(op, [x, *known], out, **options))
        x = out
    return nodes
