"""An LSTM among the inputs of its node: where its tensors are, and what is checked of all LSTMs alike."""

from __future__ import annotations

from typing import NamedTuple

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import need, need_type, unsupported
from twinfer.runtime.ops.recurrent._sequences import (
    Layout,
    activation,
    need_clip,
    need_plain_weights,
    need_shape,
    need_state,
)

#: The gates, in the order that kernels have them.
FORGET, INPUT, MODULATION, OUTPUT = range(4)

#: Kind of LSTM -> types of x, hidden state and output; weights; bias; peephole weights; norm factors; cell.
TYPES = {
    "float": ("FLOAT32", "FLOAT32", "FLOAT32", "FLOAT32", "FLOAT32", "FLOAT32"),
    "hybrid": ("FLOAT32", "INT8", "FLOAT32", "INT8", "FLOAT32", "FLOAT32"),
    "wide": ("INT16", "INT8", "INT64", "INT16", "INT16", "INT16"),
    "integer": ("INT8", "INT8", "INT32", "INT16", "INT16", "INT16"),
}


class Gate(NamedTuple):
    """Positions of a gate's inputs; None: there is no such input."""

    weights: int
    recurrent: int
    bias: int
    peephole: int | None
    norm: int | None
    other: int | None


class Places(NamedTuple):
    """Where an operator has its inputs: the first weights, the hidden state (the cell follows), x, another input,
    norm factors and the other input's weights (the four gates' from there on)."""

    start: int = 1
    hidden: int = 18
    x: int = 0
    other: int | None = None
    norm: int | None = None
    of_other: int | None = None


class Lstm:
    """One LSTM of a node. ``gates``: forget, input, cell, output."""

    def __init__(self, node: Node, places: Places, layout: Layout) -> None:
        self.node, self.places, self.layout = node, places, layout
        order = (1, 0, 2, 3)  # inputs come in the order input, forget, cell, output
        self.gates = tuple(self._gate(i) for i in order)
        self.projection, self.projection_bias = places.start + 15, places.start + 16
        self.hidden, self.cell = places.hidden, places.hidden + 1

    def _gate(self, i: int) -> Gate:
        at, start = self.places, self.places.start
        peephole = {0: start + 8, 1: start + 9, 3: start + 10}.get(i)
        norm, other = (None if first is None else first + i for first in (at.norm, at.of_other))
        return Gate(start + i, start + 4 + i, start + 11 + i, peephole, norm, other)

    def tensor(self, position: int | None) -> Tensor | None:
        return None if position is None else self.node.optional(position)

    @property
    def x(self) -> Tensor:
        return self.node.input(self.places.x)

    @property
    def other(self) -> Tensor | None:
        """The other input, if it has weights."""
        with_weights = self.tensor(self.gates[FORGET].other) is not None
        return self.tensor(self.places.other) if with_weights else None

    @property
    def coupled(self) -> bool:
        """Whether there is no input gate ("CIFG")."""
        return self.tensor(self.gates[INPUT].weights) is None

    @property
    def peephole(self) -> bool:
        return self.tensor(self.gates[OUTPUT].peephole) is not None

    @property
    def norm(self) -> bool:
        return self.tensor(self.gates[FORGET].norm) is not None

    @property
    def projected(self) -> bool:
        return self.tensor(self.projection) is not None

    @property
    def units(self) -> int:
        return self.node.input(self.gates[OUTPUT].weights).shape[0]

    @property
    def outputs(self) -> int:
        return self.node.input(self.gates[OUTPUT].recurrent).shape[-1]

    @property
    def kind(self) -> str:
        """ "float", "hybrid", "integer" or, with int16 values, "wide"."""
        weights = self.node.input(self.gates[OUTPUT].weights)
        if self.x.type == "FLOAT32":
            return "hybrid" if weights.type == "INT8" else "float"
        return "wide" if self.x.type == "INT16" else "integer"

    @property
    def used(self) -> list[Gate]:
        """The gates that there are."""
        return [gate for i, gate in enumerate(self.gates) if i != INPUT or not self.coupled]

    @property
    def macs(self) -> int:
        extra = 0 if self.other is None else self.other.shape[-1]
        per_step = len(self.used) * self.units * (self.x.shape[-1] + extra + self.outputs)
        per_step += self.units * self.outputs if self.projected else 0
        return self.layout.batches * self.layout.steps * per_step


def check(lstm: Lstm) -> None:
    """ModelError or UnsupportedOperatorError unless the LSTM holds together."""
    node = lstm.node
    need_clip(node, "cell_clip", "proj_clip")
    w, r = (node.input(i) for i in (lstm.gates[OUTPUT].weights, lstm.gates[OUTPUT].recurrent))
    need(len(w.shape) == 2 and len(r.shape) in (1, 2), node, f"{w} and {r} must be matrices")
    if lstm.kind in ("float", "hybrid"):
        activation(node)
    need(min(lstm.units, lstm.outputs) > 0, node, f"{w} and {r} leave no units or outputs")
    _check_presence(lstm)
    _check_types(lstm)
    _check_shapes(lstm)


def _check_presence(lstm: Lstm) -> None:
    node = lstm.node
    for gate in lstm.used:
        for needed in (gate.weights, gate.recurrent, gate.bias):
            node.input(needed)
    absent = lstm.gates[INPUT]
    if lstm.coupled:
        for position in (absent.recurrent, absent.bias, absent.norm, absent.other):
            tensor = lstm.tensor(position)
            need(tensor is None, node, f"{tensor} belongs to an input gate, which has no input weights")
    watching = [gate for gate in lstm.used if gate.peephole is not None]
    optional: list[tuple[str, list[int | None]]] = [
        ("peephole weights", [gate.peephole for gate in watching]),
        ("norm factors", [gate.norm for gate in lstm.used]),
        ("weights of the other input", [gate.other for gate in lstm.used]),
    ]
    for name, positions in optional:
        there = [lstm.tensor(i) is not None for i in positions]
        need(all(there) or not any(there), node, f"some gates have {name}, and others have none")
    with_weights = lstm.tensor(lstm.gates[FORGET].other) is not None
    need(not with_weights or lstm.other is not None, node, "there are weights for another input, which is missing")
    bias = lstm.tensor(lstm.projection_bias)
    need(lstm.projected or bias is None, node, f"{bias} belongs to a projection, which has no weights")


def _check_types(lstm: Lstm) -> None:
    node = lstm.node
    need_type(node, lstm.x, "FLOAT32", "INT8", "INT16")
    value, weight, bias, peephole, norm, cell = TYPES[lstm.kind]
    typed: list[tuple[int | None, str]] = [(lstm.projection, weight), (lstm.projection_bias, bias)]
    typed += [(lstm.hidden, value), (lstm.cell, cell), (lstm.places.other, value)]
    for gate in lstm.used:
        typed += [(gate.weights, weight), (gate.recurrent, weight), (gate.bias, bias), (gate.other, weight)]
        typed += [(gate.peephole, peephole), (gate.norm, norm)]
    for position, type in typed:
        tensor = lstm.tensor(position)
        if tensor is not None:
            need_type(node, tensor, type)
    for y in node.outputs:
        need_type(node, y, value)
    if lstm.kind == "hybrid":
        need_plain_weights(node, *weights_of(lstm))


def weights_of(lstm: Lstm) -> list[Tensor]:
    """All weights that are multiplied with values, peephole weights among them."""
    positions = [i for gate in lstm.used for i in (gate.weights, gate.recurrent, gate.peephole, gate.other)]
    return [t for t in map(lstm.tensor, (*positions, lstm.projection)) if t is not None]


def _check_shapes(lstm: Lstm) -> None:
    node, units, outputs, layout = lstm.node, lstm.units, lstm.outputs, lstm.layout
    for gate in lstm.used:
        need_shape(node, lstm.tensor(gate.weights), units, lstm.x.shape[-1])
        _check_recurrent(lstm, node.input(gate.recurrent))
        for position in (gate.bias, gate.peephole, gate.norm):
            need_shape(node, lstm.tensor(position), units)
        if lstm.other is not None:
            need_shape(node, lstm.tensor(gate.other), units, lstm.other.shape[-1])
    need_shape(node, lstm.tensor(lstm.projection), outputs, units)
    need_shape(node, lstm.tensor(lstm.projection_bias), outputs)
    need(lstm.projected or units == outputs, node, f"{units} units give {outputs} outputs without a projection")
    other = lstm.tensor(lstm.places.other)
    if other is not None:
        need_shape(node, other, *layout.shape(other.shape[-1]))
    need_state(node, node.input(lstm.hidden), layout.batches * outputs)
    need_state(node, node.input(lstm.cell), layout.batches * units)


def _check_recurrent(lstm: Lstm, weights: Tensor) -> None:
    """Recurrent weights are a matrix, or the diagonal of one."""
    if len(weights.shape) != 1:
        need_shape(lstm.node, weights, lstm.units, lstm.outputs)
        return
    need_shape(lstm.node, weights, lstm.units)
    need(lstm.outputs == lstm.units, lstm.node, f"{weights} is diagonal, which a projection does not allow")
    if lstm.kind != "float" or weights.data is None:
        raise unsupported(lstm.node, f"{weights} is diagonal, which only has a kernel if it is a float constant")
