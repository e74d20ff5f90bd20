"""Chains of operators with constants, drawn at random: what passes merge, move and leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.op import tensor

_CLIPS = ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
_FUSED = ("NONE", "NONE", "NONE", "RELU", "RELU6")


class _Chain:
    """A growing chain. ``quant`` is the one quantisation of an int8 chain; floats have none."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = Builder("chain")
        self.quant: dict[str, Any] = (
            {"scale": 0.05, "zero": self.pick(-128, 3, 90)} if self.rng.integers(3) == 0 else {}
        )
        shape = self.pick((1, 4, 4, 2), (1, 6, 3), (2, 5), (1, 3, 5, 2))
        self.y = self.b.input("x", "INT8" if self.quant else "FLOAT32", shape, **self.quant)
        self.seen = [self.y]

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def constant(self, *shape: int) -> Tensor:
        """Numbers around 0, or all of them one that rules of passes know."""
        one = self.pick(None, None, 0.0, 1.0, -1.0, 6.0, 0.5, -2.0)
        value = self.rng.normal(0, 1.5, shape) if one is None else np.full(shape, one)
        if not self.quant:
            return self.b.constant(value.astype(np.float32))
        stored = np.clip(np.round(value / 0.05) + self.quant["zero"], -128, 127).astype(np.int8)
        return self.b.constant(stored, **self.quant)

    def arithmetic(self) -> Tensor:
        n = self.y.shape
        c = self.constant(*self.pick((), (n[-1],), (*n[:-1], 1), n, (1,) * len(n)))
        op = self.pick("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", *([] if self.quant else ["DIV"]))
        fused = {} if op in ("MAXIMUM", "MINIMUM") else {"fused_activation_function": self.pick(*_FUSED)}
        return self.b.op(op, self.pick([self.y, c], [c, self.y]), **self.quant, **fused)

    def clip(self) -> Tensor:
        return self.b.op(self.pick(*_CLIPS), [self.y], **self.quant)

    def function(self) -> Tensor:
        return self.b.op(
            self.pick("NEG", "ABS", *([] if self.quant else ["SQUARE", "CEIL", "COS"])), [self.y], **self.quant
        )

    def joined(self) -> Tensor:
        """With a tensor of before, in the same shape."""
        fit = [t for t in self.seen if t.shape == self.y.shape]
        other = fit[self.rng.integers(len(fit))]
        fused = {"fused_activation_function": self.pick(*_FUSED)}
        return self.b.op(
            self.pick("ADD", "SUB", "MUL"), self.pick([self.y, other], [other, self.y]), **self.quant, **fused
        )

    def turned(self) -> Tensor:
        order = self.rng.permutation(len(self.y.shape)).astype(np.int32)
        return self.b.op("TRANSPOSE", [self.y, order])

    def shaped(self) -> Tensor:
        n = self.y.shape
        new = self.pick((1, self.y.size), (*n[:-1], 1, n[-1]), (1, *n), (n[0], -1), n) if len(n) < 5 else (1, -1)
        new = tuple(self.y.size // n[0] if d == -1 and len(new) == 2 and new[0] == n[0] else d for d in new)
        new = (1, self.y.size) if -1 in new else new
        return self.b.op("RESHAPE", [self.y, np.array(new, np.int32)], new_shape=new)

    def moved(self) -> Tensor:
        n, axis = self.y.shape, int(self.rng.integers(len(self.y.shape)))
        match self.pick("flip", "rows", "cut", "pad", "nd", "stride"):
            case "flip":
                return self.b.op("REVERSE_V2", [self.y, np.array([axis], np.int32)])
            case "rows":
                at = self.pick(np.arange(n[axis]), np.arange(n[axis])[::-1], self.rng.integers(0, n[axis], n[axis]))
                return self.b.op("GATHER", [self.y, at.astype(np.int32)], axis=axis, batch_dims=0)
            case "cut":
                begin = [int(i == axis and d > 1 and self.rng.integers(2)) for i, d in enumerate(n)]
                size = [d - at for d, at in zip(n, begin, strict=True)]
                return self.b.op("SLICE", [self.y, np.array(begin, np.int32), np.array(size, np.int32)])
            case "pad":
                around = [[int(i == axis) * self.pick(0, 1, 2), 0] for i in range(len(n))]
                return self.b.op("PAD", [self.y, np.array(around, np.int32)])
            case "nd":
                at = self.rng.permutation(n[0])[:, None].astype(np.int32)
                return self.b.op("GATHER_ND", [self.y, at])
        steps = np.array([self.pick(1, -1, 2) if i == axis else 1 for i in range(len(n))], np.int32)
        whole = (1 << len(n)) - 1
        others = dict.fromkeys(("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
        masks: dict[str, Any] = {"begin_mask": whole, "end_mask": whole, **others}
        zeros = np.zeros(len(n), np.int32)
        return self.b.op("STRIDED_SLICE", [self.y, zeros, zeros, steps], **masks, offset=False)

    def parts(self) -> Tensor:
        """Split along an axis, and put together again in some order."""
        axis = int(self.rng.integers(len(self.y.shape)))
        if self.y.shape[axis] % 2:
            return self.b.op("CONCATENATION", [self.y, self.y], axis=axis)
        half = tuple(d // 2 if i == axis else d for i, d in enumerate(self.y.shape))
        blank = [tensor(half, self.y.type, **self.quant, name=f"half{len(self.seen)}{i}") for i in range(2)]
        parts = self.b.node("SPLIT", [np.array(axis, np.int32), self.y], blank, {"num_splits": 2})
        return self.b.op("CONCATENATION", self.pick(list(parts), list(parts)[::-1], [parts[1], parts[1]]), axis=axis)

    def dense(self) -> Tensor:
        """A layer of weights over the last dimension."""
        depth = self.y.shape[-1]
        w = self.rng.normal(size=(3, depth))
        if self.quant:
            weights = self.b.constant(np.clip(np.round(w * 40), -127, 127).astype(np.int8), scale=0.025)
        else:
            weights = self.b.constant(w.astype(np.float32))
        options = {"fused_activation_function": self.pick(*_FUSED), "keep_num_dims": True}
        return self.b.op(
            "FULLY_CONNECTED", [self.y, weights, None], shape=(*self.y.shape[:-1], 3), **self.quant, **options
        )

    def total(self) -> Tensor:
        axis = int(self.rng.integers(len(self.y.shape)))
        return self.b.op(
            self.pick("MEAN", "REDUCE_MAX"), [self.y, np.array([axis], np.int32)], keep_dims=True, **self.quant
        )


_KINDS: tuple[Callable[[_Chain], Tensor], ...] = (
    *(_Chain.arithmetic,) * 5, *(_Chain.clip,) * 2, _Chain.function, _Chain.joined, *(_Chain.turned,) * 2,
    *(_Chain.shaped,) * 2, *(_Chain.moved,) * 3, _Chain.parts, *(_Chain.dense,) * 2, _Chain.total,
)  # fmt: skip


def chain(seed: int) -> Graph:
    """A model of three to eight operators; one tensor in the middle may be an output, too."""
    made = _Chain(seed)
    for _ in range(int(made.rng.integers(3, 9))):
        made.y = made.pick(*_KINDS)(made)
        made.seen.append(made.y)
    middle = [made.seen[made.rng.integers(1, len(made.seen))]] if made.rng.integers(4) == 0 else []
    return made.b.graph(list(dict.fromkeys([*middle, made.y])))
