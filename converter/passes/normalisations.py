"""Softmax and normalisation that are spelled out become the operators for them, or the cheapest others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, new_node, rewrite, scalar, with_options, works
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.shapes import is_open

#: Where the pipeline runs the pass (``passes/__init__.py``): once more where transposes have moved axes to the end.
PLACES = (14, 85)

#: The least norm that L2_NORMALIZATION divides by, and a number beside a norm or its square that is nothing.
_LEAST, _NOTHING = 1e-6, 1e-7

_FUSED = "fused_activation_function"

#: Operators that broadcast their operands themselves.
_BROADCASTS = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SUB")


def normalisations(graph: Graph) -> Graph:
    """Over the last dimension of floats, exp(x) / sum(exp(x)) becomes SOFTMAX, its logarithm LOG_SOFTMAX, and
    x / sqrt(sum(x²)) L2_NORMALIZATION. Division by a root that belongs to many elements becomes MUL by RSQRT, and
    x * a - mean * a becomes (x - mean) * a. Broadcasts in front of arithmetic go."""
    return rewrite(graph, _write)


def _write(view: View, node: Node) -> Change | None:
    if len(node.outputs) != 1:
        return None
    change = _broadcast(view, node)
    if change is not None or node.output.type != "FLOAT32" or is_open(node.output):
        return change
    activation = node.options.get(_FUSED, "NONE")
    plain = node
    if activation != "NONE":
        middle = replace(node.output, name=f"{node.output.name}/plain", shape_signature=())
        plain = replace(with_options(node, **{_FUSED: "NONE"}), outputs=(middle,))
    for rule in (_softmax, _log_softmax, _l2, _centred, _by_root):
        change = rule(view, plain)
        if change is not None and all(map(works, change.add)):
            return change if plain is node else _active(change, plain, node)
    return None


def _active(change: Change, plain: Node, node: Node) -> Change:
    """The change of a node without its activation, and the activation."""
    *before, last = change.add
    activation = str(node.options[_FUSED])
    if row_of(last).fuses:
        nodes = [replace(with_options(last, **{_FUSED: activation}), outputs=node.outputs)]
    else:
        nodes = [last, new_node(activation, [plain.output], node.output)]
    return Change(tuple(node if n is plain else n for n in change.remove), (*before, *nodes))


def _broadcast(view: View, node: Node) -> Change | None:
    """An operand that is repeated only to have the other one's shape."""
    if node.op not in _BROADCASTS or len(node.output.shape) > 4:
        return None
    for i in (0, 1):
        maker = view.producer(node.input(i), "TILE", "BROADCAST_TO")
        if (
            maker is None
            or maker.extra
            or maker.input(0).data is not None
            or is_open(maker.output)
            or maker.input(0).quant != node.input(i).quant
        ):
            continue
        x = maker.input(0)
        padded = (1,) * (len(maker.output.shape) - len(x.shape)) + x.shape
        plain = all(n in (1, m) for n, m in zip(padded, maker.output.shape, strict=True))
        now = replace(node, inputs=(x, node.input(1)) if i == 0 else (node.input(0), x))
        if plain and works(now):
            return Change((node,), (now,))
    return None


def _over_last(view: View, tensor: Tensor | None, op: str) -> Tensor | None:
    """What a reduction over the last dimension alone, which stays as 1, reads."""
    node = view.producer(tensor, "RESHAPE", op)
    if node is not None and node.op == "RESHAPE":  # behind a reduction that leaves the dimension out
        kept = node.output.shape == (*node.input(0).shape, 1)
        node = view.producer(node.input(0), op) if kept else None
    elif node is not None and not node.options.get("keep_dims"):
        return None
    if node is None or node.input(1).data is None or is_open(node.input(0)):
        return None
    axes, rank = np.asarray(node.input(1).data).reshape(-1), len(node.input(0).shape)
    return node.input(0) if axes.size == 1 and int(axes[0]) % rank == rank - 1 else None


def _shifted(view: View, x: Tensor) -> Tensor:
    """x without a number for each row that is taken from it."""
    node = view.producer(x, "SUB")
    plain = node is not None and node.options[_FUSED] == "NONE"
    if node is None or not plain or node.input(0).shape != x.shape:
        return x
    rows = node.input(1).shape
    return node.input(0) if not rows or rows[-1] == 1 else x


def _softmax(view: View, node: Node) -> Change | None:
    e = view.producer(node.input(0), "EXP") if node.op == "DIV" else None
    if e is None or _over_last(view, node.input(1), "SUM") is not e.output or e.output.shape != node.output.shape:
        return None
    return Change((node,), (new_node("SOFTMAX", [_shifted(view, e.input(0))], node.output, beta=1.0),))


def _log_softmax(view: View, node: Node) -> Change | None:
    """The logarithm of SOFTMAX, or x without the logarithm of the sum of exp(x)."""
    if node.op == "LOG":
        softmax = view.feeds(node.input(0), "SOFTMAX")
        if softmax is None or softmax.options["beta"] != 1:
            return None
        return Change((softmax, node), (new_node("LOG_SOFTMAX", [softmax.input(0)], node.output),))
    if node.op != "SUB" or node.input(0).shape != node.output.shape:
        return None
    x, level = node.input(0), view.producer(node.input(1), "ADD", "LOG")
    if level is None:
        return None
    for part, least in [(level.output, None)] if level.op == "LOG" else [level.inputs, level.inputs[::-1]]:
        log = view.producer(part, "LOG")
        e = view.producer(_over_last(view, log.input(0), "SUM") if log is not None else None, "EXP")
        less = view.producer(e.input(0), "SUB") if e is not None else None
        plain = e is not None and least is None and e.input(0) is x
        if plain or (less is not None and less.input(0) is x and less.input(1) is least):
            return Change((node,), (new_node("LOG_SOFTMAX", [x], node.output),))
    return None


def _square_of(view: View, tensor: Tensor | None) -> Tensor | None:
    node = view.producer(tensor, "MUL", "POW", "SQUARE")
    if node is None or node.options.get(_FUSED, "NONE") != "NONE":
        return None
    x, other = node.input(0), node.optional(1)
    square = other is x if node.op == "MUL" else node.op == "SQUARE" or scalar(other) == 2
    return x if square and x.shape == node.output.shape else None


def _l2(view: View, node: Node) -> Change | None:
    """x by the root of the sum of its squares, to which nothing much is added."""
    if node.op not in ("DIV", "MUL") or len(node.output.shape) > 4:
        return None
    for i in (0, 1) if node.op == "MUL" else (0,):
        x, factor = node.input(i), node.input(1 - i)
        factor = _without(view, factor, _LEAST) if node.op == "DIV" else factor
        root = view.producer(factor, "SQRT" if node.op == "DIV" else "RSQRT")
        total = None if root is None else _without(view, root.input(0), _LEAST**2)
        if x.shape == node.output.shape and _square_of(view, _over_last(view, total, "SUM")) is x:
            return Change((node,), (new_node("L2_NORMALIZATION", [x], node.output),))
    return None


def _without(view: View, tensor: Tensor, least: float) -> Tensor:
    """A norm, or its square, before a small number is added, or taken where it is smaller."""
    node = view.producer(tensor, "ADD", "MAXIMUM")
    if node is None:
        return tensor
    for i in (0, 1):
        number = scalar(node.input(i))
        if number is not None and 0 <= number <= (least if node.op == "MAXIMUM" else least * _NOTHING / _LEAST):
            return node.input(1 - i)
    return tensor


def _centred(view: View, node: Node) -> Change | None:
    """x * a + (b - mean * a), as TensorFlow spells it, and x * a - mean * a: (x - mean) * a + b."""
    if node.op not in ("ADD", "SUB"):
        return None
    left, right = view.feeds(node.input(0), "MUL"), node.input(1)
    shift, offset = view.feeds(right, "MUL"), None
    if node.op == "ADD":
        less = view.feeds(right, "SUB")
        shift, offset = (None, None) if less is None else (view.feeds(less.input(1), "MUL"), less.input(0))
    if left is None or shift is None or (offset is not None and offset.data is None):
        return None
    for x, a in (left.inputs, left.inputs[::-1]):
        for mean, same in (shift.inputs, shift.inputs[::-1]):
            if a is same and x is not None and mean is not None and x.size == node.output.size > mean.size:
                y = node.output
                rest, scaled = (Tensor(f"{y.name}/{n}", y.type, y.shape) for n in ("centred", "scaled"))
                subtract, product = new_node("SUB", [x, mean], rest), new_node("MUL", [rest, a], scaled)
                if offset is None:
                    return Change((node,), (subtract, replace(product, outputs=(y,))))
                return Change((node,), (subtract, product, new_node("ADD", [scaled, offset], y)))
    return None


def _by_root(view: View, node: Node) -> Change | None:
    root = view.feeds(node.input(1), "SQRT") if node.op == "DIV" else None
    if root is None:
        return None
    if scalar(node.input(0)) == 1 and root.output.shape == node.output.shape:
        return Change((root, node), (new_node("RSQRT", [root.input(0)], node.output),))
    if root.output.size >= node.output.size:
        return None
    factor = replace(root.output, name=f"{root.output.name}/inverse", shape_signature=())
    product = new_node("MUL", [node.input(0), factor], node.output)
    return Change((root, node), (new_node("RSQRT", [root.input(0)], factor), product))
