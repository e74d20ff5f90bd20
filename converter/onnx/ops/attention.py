"""Attention of com.microsoft: with one product for queries, keys and values, with three, and with groups of queries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from twinfer.converter.emit import products
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.functions import number
from twinfer.converter.onnx.node import Importer, OnnxNode
from twinfer.converter.onnx.ops.microsoft import multiplied, named, plus
from twinfer.runtime.graph import Tensor

Results = tuple[Tensor | None, ...]


def _heads(g: Emitter, x: Tensor, heads: int) -> Tensor:
    """[batch, heads, length, size] of [batch, length, heads * size]."""
    n, length, width = x.shape
    return g.transpose(g.reshape(x, (n, length, heads, width // heads)), (0, 2, 1, 3))


def _attended(g: Emitter, node: OnnxNode, parts: Sequence[Tensor], mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """softmax(Q * K' * scale + mask) * V of several heads. ``mask`` is 0 where a key is hidden: [batch, keys] or
    [batch, queries, keys]; or it says how many keys each batch has, [batch]."""
    query, key, value = parts
    n, heads, length, size = query.shape
    keys = key.shape[2]
    scale = float(node.attribute("scale", 0.0)) or 1 / math.sqrt(size)
    hidden = float(node.attribute("mask_filter_value", -10000.0))
    scores = products.product(g, g.binary("MUL", query, number(scale)), key, adjoint=True)
    if cap := float(node.attribute("softcap", 0.0)):
        scores = g.binary("MUL", g.unary("TANH", g.binary("MUL", scores, number(1 / cap))), number(cap))
    scores = scores if bias is None else g.binary("ADD", scores, bias)
    if mask is not None:
        if mask.shape == (n,):
            mask = g.binary("LESS", np.arange(keys, dtype=np.int32), g.reshape(g.cast(mask, "INT32"), (n, 1)), "BOOL")
        shapes = {(n, keys): (n, 1, 1, keys), (n, length, keys): (n, 1, length, keys)}
        node.need(mask.shape in shapes, "a mask that is not [batch, keys], [batch, queries, keys] or [batch]")
        off = g.binary("SUB", number(1), g.cast(mask, "FLOAT32"))
        off = g.reshape(g.binary("MUL", off, number(hidden)), shapes[mask.shape])
        scores = g.binary("ADD", scores, off)
    if node.attribute("unidirectional", 0):
        scores = g.binary("ADD", scores, np.triu(np.full((length, keys), hidden, np.float32), 1 + keys - length))
    y = g.transpose(products.product(g, g.unary("SOFTMAX", scores, beta=1.0), value), (0, 2, 1, 3))
    return g.reshape(y, (n, length, heads * value.shape[3]))


def attention(g: Emitter, node: OnnxNode) -> Results:
    """Attention of a sequence to itself: one product makes queries, keys and values."""
    product = products.matmul(g, node.input(0), node.input(1))
    return _to_itself(g, node, product, node.optional(3), node.optional(4), node.optional(5))


def q_attention(g: Emitter, node: OnnxNode) -> Results:
    """Attention of integers: scales are in inputs 3 and 4, zero points in 6 and 7, the mask in 5."""
    sides = [(node.input(i), node.input(i + 3), node.optional(i + 6)) for i in (0, 1)]
    return _to_itself(g, node, multiplied(g, node, *sides), node.optional(5), node.optional(8), None)


def _to_itself(
    g: Emitter, node: OnnxNode, product: Tensor, mask: Tensor | None, past: Tensor | None, bias: Tensor | None
) -> Results:
    """``past``: keys and values of earlier steps, [2, batch, heads, steps, size]. The second result has all."""
    node.need(not node.attribute("do_rotary", 0), "rotation of queries and keys within; use GroupQueryAttention")
    heads, width = int(node.attribute("num_heads", 1)), product.shape[2]
    sizes = [int(v) for v in node.attribute("qkv_hidden_sizes", ()) or (width // 3,) * 3]
    query, key, value = (_heads(g, x, heads) for x in g.split(plus(g, product, node.optional(2)), sizes, 2))
    if past is not None:
        shape = past.shape[1:]
        before = [g.reshape(half, shape) for half in g.split(past, (1, 1), 0)]
        key, value = (g.concat([old, new], 2) for old, new in zip(before, (key, value), strict=True))
    y = _attended(g, node, (query, key, value), mask, bias)
    if len(node.outputs) < 2 or not node.outputs[1]:
        return (y,)
    return y, g.concat([g.reshape(x, (1, *x.shape)) for x in (key, value)], 0)


def multi_head_attention(g: Emitter, node: OnnxNode) -> Results:
    """Keys and values may be [batch, heads, steps, size] already, as those of another sequence are."""
    node.need(len(node.input(0).shape) == 3, "packed queries, keys and values; unpack them")
    heads, bias = int(node.attribute("num_heads", 1)), node.constant(3)
    parts, at = [], 0
    for i in range(3):
        x = node.input(i)
        if len(x.shape) == 3:
            addend = None if bias is None else bias[at : at + x.shape[2]]
            at += x.shape[2]
            x = _heads(g, x if addend is None else g.binary("ADD", x, addend), heads)
        parts.append(x)
    query, key, value = parts
    key, value = _with_past(g, key, node.optional(6)), _with_past(g, value, node.optional(7))
    return _attended(g, node, (query, key, value), node.optional(4), node.optional(5)), key, value


def _with_past(g: Emitter, x: Tensor, past: Tensor | None) -> Tensor:
    return x if past is None or past.shape[2] == 0 else g.concat([past, x], 2)


def group_query_attention(g: Emitter, node: OnnxNode) -> Results:
    """Several queries share keys and values; these may be rotated. A query sees the keys up to its own.

    Shapes say how many steps are past. With one batch ``seqlens_k`` cannot say otherwise; with several it must be
    constant and say the same.
    """
    heads, groups = int(node.attribute("num_heads", 1)), int(node.attribute("kv_num_heads", 1))
    more = [i for i in range(11, len(node.inputs)) if node.optional(i) is not None]
    node.need(not more, f"inputs {more}: sinks, or scales of a quantised cache; export the model without them")
    node.need(not node.attribute("smooth_softmax", 0), "a smooth softmax")
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if key is None or value is None:
        size = query.shape[2] // (heads + 2 * groups)
        query, key, value = g.split(query, (heads * size, groups * size, groups * size), 2)
    query, key, value = _heads(g, query, heads), _heads(g, key, groups), _heads(g, value, groups)
    (n, _, length, _), past = query.shape, node.optional(3)
    before = 0 if past is None else past.shape[2]
    known = node.input(5).data
    alike = known is not None and bool((known == before + length - 1).all())
    node.need(n == 1 or alike, "batches of sequences whose lengths are known at run time; give it one batch")
    if node.attribute("do_rotary", 0):
        at = node.optional(9)
        tables = [_turns(g, node.input(i), at, before, length) for i in (7, 8)]
        twisted = bool(node.attribute("rotary_interleaved", 0))
        query, key = _rotated(g, query, tables, twisted), _rotated(g, key, tables, twisted)
    key, value = _with_past(g, key, past), _with_past(g, value, node.optional(4))
    keys = key.shape[2]
    window = int(node.attribute("local_window_size", -1))
    ahead = np.arange(keys) - np.arange(before, before + length)[:, None]
    hidden = (ahead > 0) | ((ahead <= -window) if window > 0 else False)
    bias = node.optional(10)
    mask = np.where(hidden, np.float32(-10000), np.float32(0))
    sums: Tensor | np.ndarray = mask if bias is None else g.binary("ADD", bias, mask)
    sums = sums if isinstance(sums, Tensor) else g.known(sums)
    repeats = np.repeat(np.arange(groups), heads // groups)
    whole = [x if heads == groups else g.gather(x, repeats, 1) for x in (key, value)]
    return _attended(g, node, (query, *whole), None, sums), key, value


def _turns(g: Emitter, table: Tensor, at: Tensor | None, before: int, length: int) -> Tensor:
    """Rows of a table of cosines or sines as [batch or 1, 1, length, half]: at positions, or from the past on."""
    if at is not None and at.size > 1:
        rows = g.gather(table, at, 0)
        return g.reshape(rows, (at.shape[0], 1, *rows.shape[1:]))
    start = before if at is None else at
    if isinstance(start, Tensor):
        places = g.binary("ADD", g.cast(g.reshape(start, (1,)), "INT32"), np.arange(length, dtype=np.int32))
        return g.reshape(g.gather(table, places, 0), (1, 1, length, table.shape[1]))
    return g.reshape(g.part(table, (start, 0), (length, table.shape[1])), (1, 1, length, table.shape[1]))


def _rotated(g: Emitter, x: Tensor, tables: Sequence[Tensor], interleaved: bool) -> Tensor:
    """x [batch, heads, length, size]: pairs of elements turned by angles. A pair is one element of each half, or two
    neighbours if ``interleaved``; what is behind the pairs stays."""
    cos, sin = tables
    n, heads, length, size = x.shape
    half = cos.shape[-1]
    front, rest = (x, None) if 2 * half == size else g.split(x, (2 * half, size - 2 * half), 3)
    if interleaved:
        pairs = g.reshape(front, (n, heads, length, half, 2))
        a, b = (g.reshape(each, (n, heads, length, half)) for each in g.split(pairs, (1, 1), 4))
    else:
        a, b = g.split(front, (half, half), 3)
    turned = [
        g.binary("SUB", g.binary("MUL", a, cos), g.binary("MUL", b, sin)),
        g.binary("ADD", g.binary("MUL", b, cos), g.binary("MUL", a, sin)),
    ]
    if interleaved:
        joint = g.concat([g.reshape(each, (n, heads, length, half, 1)) for each in turned], 4)
        turned = [g.reshape(joint, (n, heads, length, 2 * half))]
    return g.concat([*turned, *([] if rest is None else [rest])], 3)


def rotary_embedding(g: Emitter, node: OnnxNode) -> Tensor:
    """Of [batch, heads, length, size] or [batch, length, heads * size]."""
    node.need(not node.attribute("is_packed_batching", 0), "packed batches")
    x, at, table = node.input(0), node.input(1), node.input(2)
    width = int(node.attribute("rotary_embedding_dim", 0)) or 2 * table.shape[1]
    heads = int(node.attribute("num_heads", 0)) or (x.shape[-1] // width if len(x.shape) == 3 else 0)
    y = x if len(x.shape) == 4 else _heads(g, x, heads)
    tables = [_turns(g, node.input(i), at, 0, y.shape[2]) for i in (2, 3)]
    y = _rotated(g, y, tables, bool(node.attribute("interleaved", 0)))
    return y if len(x.shape) == 4 else g.reshape(g.transpose(y, (0, 2, 1, 3)), x.shape)


IMPORTERS: dict[str, Importer] = named(
    {
        "Attention": attention,
        "GroupQueryAttention": group_query_attention,
        "MultiHeadAttention": multi_head_attention,
        "QAttention": q_attention,
        "RotaryEmbedding": rotary_embedding,
    }
)
