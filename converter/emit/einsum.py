"""Einstein's summation as one product of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from twinfer.converter.emit.dense import matmul
from twinfer.converter.emit.emitter import Emitter
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Tensor


def einsum(g: Emitter, equation: str, operands: Sequence[Tensor]) -> Tensor:
    """One or two operands, every letter at most once in each; "..." stands for dimensions in front. A dimension of 1 is
    repeated along the other operand's of the same letter."""
    terms, result = _terms(equation, [len(x.shape) for x in operands])
    for term in (*terms, result):
        if len(set(term)) < len(term):
            raise UnsupportedOperatorError(f"einsum {equation!r} with a letter twice in one operand")
    if len(operands) == 1:
        return _arranged(g, _summed(g, operands[0], terms[0], result), _kept(terms[0], result), result)
    if len(operands) != 2:
        raise UnsupportedOperatorError(f"einsum {equation!r} of {len(operands)} operands; do it two by two")
    return _product(g, operands, terms, result)


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


def _summed(g: Emitter, x: Tensor, term: str, *others: str) -> Tensor:
    """x without the dimensions that no other term has."""
    axes = tuple(i for i, c in enumerate(term) if all(c not in other for other in others))
    if not axes:
        return x
    shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    return g.emit("SUM", [x, np.array(axes, np.int32)], shape, keep_dims=False)


def _arranged(g: Emitter, x: Tensor, term: str, order: str) -> Tensor:
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
    x, y = _summed(g, x, a, b, result), _summed(g, y, b, a, result)
    a, b = _kept(a, b, result), _kept(b, a, result)
    batch, depth = (_kept(_kept(a, b), result), "".join(c for c in a if c in b and c not in result))
    rows, columns = ("".join(c for c in term if c not in batch + depth) for term in (a, b))

    def extents(letters: str) -> tuple[int, ...]:
        return tuple(size[c] for c in letters)

    each = extents(batch), math.prod(extents(rows)), math.prod(extents(depth)), math.prod(extents(columns))
    left = g.reshape(_arranged(g, x, a, batch + rows + depth), (*each[0], each[1], each[2]))
    right = g.reshape(_arranged(g, y, b, batch + depth + columns), (*each[0], each[2], each[3]))
    product = g.reshape(matmul(g, left, right), extents(batch + rows + columns))
    return _arranged(g, product, batch + rows + columns, result)
