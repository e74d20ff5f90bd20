"""A limit on what is computed ahead of time: a small file must not ask for all memory."""

from __future__ import annotations

from twinfer.runtime.errors import UnsupportedOperatorError

#: Bytes of constants that conversion may make beyond those that the model brings.
MOST = 256 << 20


class Budget:
    """Bytes that are left of ``MOST``."""

    def __init__(self) -> None:
        self.left = MOST

    def afford(self, size: int, what: str) -> None:
        """Raises UnsupportedOperatorError if fewer than ``size`` bytes are left. The reader adds the node."""
        if size > self.left:
            raise UnsupportedOperatorError(
                f"{what} takes {size / 1e6:,.0f} MB more than its inputs, but {self.left / 1e6:,.0f} MB are left "
                "for constants that are computed ahead: export the model with smaller shapes, or make this an input"
            )

    def take(self, size: int, what: str) -> None:
        """``afford``, then takes the bytes off. A result no larger than its operands costs nothing."""
        self.afford(size, what)
        self.left -= max(0, size)
