"""Random chains of functions of one value, some of them with values that others read, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import tensor

#: Every value of a byte, twice.
SHAPE = (2, 8, 4, 8)

_NONE = {"fused_activation_function": "NONE"}

#: Operator -> the quantisation that it fixes for its output.
_FIXED = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}

_UNARY = ("LOGISTIC", "TANH", "HARD_SWISH", "RELU", "RELU6", "LEAKY_RELU", "ABS", "QUANTIZE", "ELU")
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "PRELU")
_FLOATS = ("LOGISTIC", "TANH", "EXP", "RELU", "ABS", "NEG", "ADD", "MUL", "SUB")
_OPTIONS: Mapping[str, Mapping[str, object]] = {
    **dict.fromkeys(("ADD", "SUB", "MUL"), _NONE), "LEAKY_RELU": {"alpha": 0.1},
}  # fmt: skip


class Chain:
    """A graph that grows by an operator at a time; ``last`` is what the next one reads."""

    def __init__(self, rng: np.random.Generator, x: Tensor) -> None:
        self.rng, self.x, self.last = rng, x, x
        self.nodes: list[Node] = []
        self.tensors = [x]

    def then(self, op: str, y: Tensor, *others: Tensor) -> Tensor:
        inputs = (self.last, *others)
        self.nodes.append(Node(op, inputs, (y,), dict(_OPTIONS.get(op, {})), index=len(self.nodes)))
        self.tensors += [t for t in (*others, y) if t not in self.tensors]
        self.last = y
        return y

    def like(self, type: str = "INT8") -> Tensor:
        """A new tensor of random quantisation."""
        rng, name = self.rng, f"t{len(self.tensors)}"
        if type == "FLOAT32":
            return tensor(SHAPE, name=name)
        return tensor(SHAPE, type, float(rng.uniform(0.01, 0.08)), int(rng.integers(-128, 128)), name=name)

    def constant(self, like: Tensor) -> Tensor:
        """One element."""
        name, shape = f"t{len(self.tensors)}", [(), (1,), (1, 1, 1, 1)][int(self.rng.integers(3))]
        if like.type == "FLOAT32":
            return tensor(shape, name=name, data=np.asarray(self.rng.uniform(-2, 2), np.float32))
        data = self.rng.integers(-128, 128)
        return tensor(shape, "INT8", float(self.rng.uniform(0.01, 0.05)), like.zero, data=data, name=name)

    def step(self) -> None:
        """One more operator."""
        rng, x = self.rng, self.last
        if x.type == "FLOAT32":
            op = str(rng.choice(_FLOATS))
            self.then(op, self.like("FLOAT32"), *((self.constant(x),) if op in _BINARY else ()))
        elif rng.random() < 0.25:
            self.then("DEQUANTIZE", self.like("FLOAT32"))
        else:
            self._step_of_bytes(str(rng.choice([*_UNARY, *_BINARY])), x)

    def _step_of_bytes(self, op: str, x: Tensor) -> None:
        other = self.constant(x) if op in _BINARY else None
        y = self.like()
        if op in _FIXED:
            y = tensor(SHAPE, "INT8", *_FIXED[op], name=y.name)
        elif op in ("MAXIMUM", "MINIMUM") and other is not None:
            y = tensor(SHAPE, "INT8", x.scale, x.zero, name=y.name)
            other = tensor(other.shape, "INT8", x.scale, x.zero, data=other.data, name=other.name)
        if op == "MUL" and self.rng.random() < 0.4:
            other = self.last  # a square
        self.then(op, y, *(() if other is None else (other,)))

    def graph(self, *more: Tensor) -> Graph:
        """The graph with the last value, as bytes, and ``more`` as outputs."""
        if self.last.type == "FLOAT32":
            self.then("QUANTIZE", self.like())
        outputs = tuple(dict.fromkeys((self.last, *more)))
        return Graph("chain", tuple(self.tensors), tuple(self.nodes), (self.x,), outputs)


def chain(seed: int, wants: Callable[[np.random.Generator], bool] = lambda rng: rng.random() < 0.3) -> Graph:
    """A random chain of 2 to 6 operators; ``wants`` says whether a value between them is an output, too."""
    rng = np.random.default_rng(seed)
    built = Chain(rng, tensor(SHAPE, "INT8", float(rng.uniform(0.01, 0.08)), int(rng.integers(-128, 128)), name="x"))
    for _ in range(int(rng.integers(2, 7))):
        built.step()
    between = [node.output for node in built.nodes[:-1]]
    return built.graph(*([between[int(rng.integers(len(between)))]] if wants(rng) else []))


def every_byte() -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    """The input of a chain."""
    return np.resize(np.arange(-128, 128).astype(np.int8), SHAPE)
