"""Products with constant weights, transposed convolutions, and Einstein's summation as one product of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Operand, Shape, constant
from twinfer.converter.emit.functions import reduced
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor


def fully_connected(g: Emitter, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Over the last dimension of x [..., depth] with constant weights [out, depth]."""
    out, depth = weights.shape
    if x.shape[-1] != depth:
        raise ModelError(f"{x} and weights of depth {depth} cannot be multiplied")
    addend = np.zeros(out, np.float32) if bias is None else bias
    return g.emit("FULLY_CONNECTED", [x, weights, addend], (*x.shape[:-1], out), keep_num_dims=len(x.shape) > 2)


def product(g: Emitter, a: Tensor, b: Tensor, adjoint: bool = False) -> Tensor:
    """Matrices [..., rows, depth] times [..., depth, columns], or [..., columns, depth] if ``adjoint``. Integers, for
    which TFLite has no product of matrices, are multiplied one by one, then added."""
    if a.type != "FLOAT32":
        right = b if adjoint else g.transpose(b, [*range(len(b.shape) - 2), len(b.shape) - 1, len(b.shape) - 2])
        left = g.reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
        all_pairs = g.binary("MUL", left, g.reshape(right, (*right.shape[:-2], 1, *right.shape[-2:])))
        return reduced(g, "SUM", all_pairs, (len(all_pairs.shape) - 1,), False)
    rows, columns = a.shape[-2], b.shape[-2 if adjoint else -1]
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns)
    return g.emit("BATCH_MATMUL", [a, b], shape, adj_x=False, adj_y=adjoint)


def matmul(g: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """As numpy.matmul: vectors are matrices of one row or column, which is dropped from the result."""
    if not a.shape or not b.shape:
        raise ModelError(f"{a if not a.shape else b} is a scalar and cannot be multiplied as a matrix")
    left = g.reshape(a, (1, *a.shape)) if len(a.shape) == 1 else a
    right = g.reshape(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ModelError(f"{a} and {b} cannot be multiplied")
    if right.data is not None and len(right.shape) == 2 and right.type == "FLOAT32":
        y = fully_connected(g, left, g.transpose(right, (1, 0)))
    else:
        y = product(g, left, right)
    shape = y.shape[:-2] + y.shape[-2:-1] * (len(a.shape) > 1) + y.shape[-1:] * (len(b.shape) > 1)
    return g.reshape(y, shape)


def linear(g: Emitter, x: Tensor, kernel: np.ndarray, bias: np.ndarray | None) -> Tensor:
    """x [..., depth] times kernel [depth, out] plus bias [out]."""
    return fully_connected(g, x, constant(np.ascontiguousarray(kernel.T)), None if bias is None else constant(bias))


def as_image(g: Emitter, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """``run`` on [n, h, w, c], or on [n, w, c] with a height of one, which its result loses again."""
    if len(x.shape) == 4:
        return run(x)
    n, w, c = x.shape
    y = run(g.reshape(x, (n, 1, w, c)))
    return g.reshape(y, (y.shape[0], *y.shape[2:]))


def transpose_conv(
    g: Emitter, x: Tensor, constants: tuple[Tensor, Operand], places: tuple[Shape, Shape, Shape, Shape]
) -> Tensor:
    """TRANSPOSE_CONV of x [n, h, w, in], over the full extent and cut where the padding is not SAME.

    ``constants`` are weights [out, kernel height, kernel width, in] and bias [out]. ``places`` are, for height and
    width each: the strides, the full extent of the result, and begin and extent of the part that is kept.
    """
    (w, bias), (strides, full, begin, size) = constants, places
    rows = list(zip(x.shape[1:3], strides, full, begin, size, strict=True))
    same = all(n == -(-out // s) and at == (f - out) // 2 and f >= out for n, s, f, at, out in rows)
    whole = size if same else tuple(max(f, at + out) for _, _, f, at, out in rows)  # it may reach further
    shape = (x.shape[0], *(size if same else full), w.shape[0])
    inputs: list[Operand] = [np.array(shape, np.int32), w, x]
    more = whole != shape[1:3]
    options = {"padding": "SAME" if same else "VALID", "stride_h": strides[0], "stride_w": strides[1]}
    y = g.emit("TRANSPOSE_CONV", inputs if more else [*inputs, bias], shape, type=x.type, **options)
    y = g.pad(y, [(0, 0), *((0, n - f) for n, f in zip(whole, shape[1:3], strict=True)), (0, 0)])
    y = g.binary("ADD", y, bias) if more else y
    return y if same else g.part(y, (0, *begin, 0), (x.shape[0], *size, w.shape[0]))


def spread(w: np.ndarray, dilations: Sequence[int], groups: int = 1) -> np.ndarray:
    """Weights [a, b, *kernel] as [a, b * groups, *kernel], with zeros between the taps of a dilated kernel and between
    groups."""
    kernel = ((k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True))
    rows, columns = w.shape[0] // groups, w.shape[1]
    dense = np.zeros((w.shape[0], columns * groups, *kernel), w.dtype)
    taps = tuple(slice(None, None, d) for d in dilations)
    for i in range(groups):
        block = slice(i * rows, (i + 1) * rows)
        dense[(block, slice(i * columns, (i + 1) * columns), *taps)] = w[block]
    return dense


def einsum(g: Emitter, equation: str, operands: Sequence[Tensor]) -> Tensor:
    """ "..." stands for dimensions in front. A dimension of 1 is repeated along the other operand's of the same letter.
    A letter that stands twice in an operand takes its diagonal. Several operands are multiplied two by two."""
    terms, result = _terms(equation, [len(x.shape) for x in operands])
    if len(set(result)) < len(result):
        raise UnsupportedOperatorError(f"einsum {equation!r} with a letter twice in the result")
    rest = [_diagonal(g, x, term) for x, term in zip(operands, terms, strict=True)]
    while len(rest) > 1:
        (x, a), (y, b), *others = rest
        wanted = "".join(
            dict.fromkeys(c for c in a + b if any(c in term for term in (result, *(t for _, t in others))))
        )
        wanted = wanted if others else result
        rest = [(_product(g, (x, y), (a, b), wanted), wanted), *others]
    x, term = rest[0]
    return _arrange(g, _sum(g, x, term, result), _kept(term, result), result)


def _diagonal(g: Emitter, x: Tensor, term: str) -> tuple[Tensor, str]:
    """x with every letter once: of two dimensions with the same letter the elements where both indices are equal."""
    letter = next((c for c in term if term.count(c) > 1), None)
    if letter is None:
        return x, term
    first, second = (i for i, c in enumerate(term) if c == letter and term[:i].count(letter) < 2)
    others = [i for i in range(len(term)) if i not in (first, second)]
    n, shape = x.shape[first], tuple(x.shape[i] for i in others)
    flat = g.reshape(g.transpose(x, [*others, first, second]), (*shape, n * n))
    diagonal = g.slices(flat, [*map(range, shape), range(0, n * n, n + 1)])
    return _diagonal(g, diagonal, "".join(term[i] for i in others) + letter)


def _terms(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of every operand and of the result; those that "..." stands for are digits."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    spans = [rank - len(part.replace("...", "")) for part, rank in zip(parts, ranks, strict=True)]
    digits = "0123456789"[: max(spans) if "..." in left else 0]
    terms = [part.replace("...", digits[len(digits) - n :]) for part, n in zip(parts, spans, strict=True)]
    if not arrow:
        letters = sorted(c for c in set(left) - set(".,") if left.count(c) == 1)
        return terms, digits + "".join(letters)
    return terms, right.replace("...", digits)


def _kept(term: str, *others: str) -> str:
    return "".join(c for c in term if any(c in other for other in others))


def _sum(g: Emitter, x: Tensor, term: str, *others: str) -> Tensor:
    """x without the dimensions that no other term has."""
    axes = tuple(i for i, c in enumerate(term) if all(c not in other for other in others))
    if not axes:
        return x
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    return g.emit("SUM", [x, np.array(axes, np.int32)], shape, keep_dims=False)


def _arrange(g: Emitter, x: Tensor, term: str, order: str) -> Tensor:
    return g.transpose(x, [term.index(c) for c in order])


def _product(g: Emitter, operands: Sequence[Tensor], terms: Sequence[str], result: str) -> Tensor:
    """[batch, rows, depth] of the one times [batch, depth, columns] of the other, in the order of ``result``."""
    size: dict[str, int] = {}
    for x, term in zip(operands, terms, strict=True):
        size.update({c: n for c, n in zip(term, x.shape, strict=True) if size.get(c, 1) == 1})
    sides = list[tuple[Tensor, str]]()
    for x, term in zip(operands, terms, strict=True):  # without dimensions of 1 that the other one repeats
        kept = [(c, n) for c, n in zip(term, x.shape, strict=True) if n != 1 or size[c] == 1]
        sides.append((g.reshape(x, [n for _, n in kept]), "".join(c for c, _ in kept)))
    (x, a), (y, b) = sides
    x, y = _sum(g, x, a, b, result), _sum(g, y, b, a, result)
    a, b = _kept(a, b, result), _kept(b, a, result)
    batch, depth = (_kept(_kept(a, b), result), "".join(c for c in a if c in b and c not in result))
    rows, columns = ("".join(c for c in term if c not in batch + depth) for term in (a, b))

    def extents(letters: str) -> tuple[int, ...]:
        return tuple(size[c] for c in letters)

    each = extents(batch), math.prod(extents(rows)), math.prod(extents(depth)), math.prod(extents(columns))
    left = g.reshape(_arrange(g, x, a, batch + rows + depth), (*each[0], each[1], each[2]))
    right = g.reshape(_arrange(g, y, b, batch + depth + columns), (*each[0], each[2], each[3]))
    product = g.reshape(matmul(g, left, right), extents(batch + rows + columns))
    return _arrange(g, product, batch + rows + columns, result)
