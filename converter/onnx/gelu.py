"""GELU as exporters spell it below opset 20, by Erf: 0.5 * x * (1 + erf(x / sqrt(2))), its factors in any order. Other
terms with Erf are written out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from twinfer.converter.emit.elementary import erf
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.functions import number
from twinfer.runtime.graph import Tensor


@dataclass(frozen=True)
class Term:
    """The value ``x ** power * (plain + share * erf(inner * x))``; ``power`` is 0 or 1. ``erf`` names the Erf node."""

    x: Tensor
    power: int = 1
    plain: float = 1.0
    share: float = 0.0
    inner: float = 0.0
    erf: str = ""

    @property
    def is_gelu(self) -> bool:
        """Whether it is GELU of a multiple of x, times a number."""
        return self.power == 1 and self.share != 0 and _near(self.plain, self.share)

    def emit(self, g: Emitter) -> Tensor:
        if not self.is_gelu:
            return self._written_out(g)
        factor = self.inner * math.sqrt(2)
        x = self.x if _near(factor, 1) else g.binary("MUL", self.x, number(factor))
        y = g.unary("GELU", x, approximate=False)
        rest = self.plain * 2 / factor
        return y if _near(rest, 1) else g.binary("MUL", y, number(rest))

    def _written_out(self, g: Emitter) -> Tensor:
        y = erf(g, self.x if self.inner == 1 else g.binary("MUL", self.x, number(self.inner)))
        y = y if self.share == 1 else g.binary("MUL", y, number(self.share))
        y = g.binary("ADD", y, number(self.plain)) if self.plain else y
        return g.binary("MUL", y, self.x) if self.power else y


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-4)


def term_of(op: str, name: str, *operands: Term | float) -> Term | None:
    """What a node makes of terms and numbers; None if that is no term."""
    a, b = (*operands, None)[:2]
    if op == "Erf" and isinstance(a, Term):
        fits = a.power == 1 and not a.share and a.plain > 0
        return Term(a.x, 0, 0.0, 1.0, a.plain, name) if fits else None
    if op in ("Mul", "Add") and isinstance(b, Term) and not isinstance(a, Term):
        a, b = b, a
    if not isinstance(a, Term) or b is None:
        return None
    if isinstance(b, Term):
        return _of_two(op, a, b) if a.x is b.x else None
    if op == "Mul":
        return replace(a, plain=a.plain * b, share=a.share * b)
    if op == "Div" and b:
        return replace(a, plain=a.plain / b, share=a.share / b)
    return replace(a, plain=a.plain + b) if op == "Add" and not a.power else None


def _of_two(op: str, a: Term, b: Term) -> Term | None:
    """The product or sum of two terms of the same x; None if that is no term."""
    if not b.share:
        a, b = b, a
    if op == "Mul" and not a.share and a.power + b.power == 1:
        return replace(b, power=1, plain=a.plain * b.plain, share=a.plain * b.share)
    alike = not a.share or a.inner == b.inner
    if op == "Add" and a.power == b.power and alike:
        return replace(b, plain=a.plain + b.plain, share=a.share + b.share)
    return None
