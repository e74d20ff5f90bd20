"""The program of a plan: what is run, in order. The interpreter, compiled C and the table in C read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.params import Param, check_params
from twinfer.runtime.rows import Feed, Rows
from twinfer.runtime.target import PLAIN, Choice


class Slice(NamedTuple):
    """The part of a value that a call in a loop works on: from byte ``offset``, ``stride`` bytes on per iteration.

    With ``turns`` above 0 the iterations take turns in so many places.
    """

    value: Tensor | Constant
    offset: int = 0
    stride: int = 0
    turns: int = 0

    def at(self, iteration: int) -> int:
        """The byte of the value at which an iteration begins."""
        return self.offset + self.stride * (iteration % self.turns if self.turns else iteration)


#: The kernel that only copies a value; its call is dropped where input and output share their memory.
COPY = "tw_copy"

#: What a pointer of a call points to: a whole value, a part of one, or nothing (a null pointer).
Argument = Tensor | Constant | Slice | None


def value_of(argument: Tensor | Constant | Slice) -> Tensor | Constant:
    """The value that an argument is, or is a part of."""
    return argument.value if isinstance(argument, Slice) else argument


def part_of(argument: Tensor | Constant | Slice) -> Slice:
    """The argument as a part of a value; a whole value is the part at its start."""
    return argument if isinstance(argument, Slice) else Slice(argument)


class Weights(NamedTuple):
    """How input 1 of a call, a constant array of int8 weights, may be stored in less flash.

    Its bytes are ``rows`` of ``head`` bytes, weights and ``tail`` bytes; head and tail are multiples of 4. With
    ``halves`` the weights are int16, 256 * b + a for weights (a, b). With ``unit`` above 0, a call of one batch may be
    cut into calls over any multiple of ``unit`` "out" channels. Each such part has an equal share of every constant; a
    constant of one element serves all. Where "out" is no multiple, the last share belongs to the remaining channels,
    filled up, or with ``overlap`` to the last ``unit`` channels.
    """

    rows: int = 1
    head: int = 0
    tail: int = 0
    halves: bool = False
    unit: int = 0
    overlap: bool = False


@dataclass(frozen=True, eq=False)
class Call:
    """One kernel call: ``kernel(params, inputs, outputs, scratch)``. Each is only equal to itself.

    ``params`` has the members of the C struct ``<kernel>_params``, all of them and no others, and every input and
    output is of the types that it may have (else RuntimeError, which names the kernel and what is wrong).
    ``scratch`` is in bytes. ``inplace`` lists the positions in ``inputs`` whose memory output 0 may take over: the
    kernel must then be right when both pointers are equal. ``macs`` counts multiply-accumulates of the node;
    ``skipped`` of them are by weights of zero, and not computed. ``weights`` says how input 1 may be stored coded, None
    if it may not. ``rows`` says how it computes parts of its output, None if it cannot; ``rows_call``, if there is one,
    computes them in its place. ``note`` describes the constants in comments.
    With ``quant`` above 0, the params that depend on scales and zero points are also that input,
    word for word, and emitted C reads them there.
    """

    kernel: str
    params: Mapping[str, Param]
    inputs: tuple[Argument, ...]
    outputs: tuple[Tensor | Slice, ...]
    scratch: int = 0
    inplace: tuple[int, ...] = ()
    macs: int = 0
    skipped: int = 0
    weights: Weights | None = None
    rows: Rows | None = None
    rows_call: Call | None = None
    note: str = ""
    quant: int = 0

    def __post_init__(self) -> None:
        check_params(self.kernel, self.params)
        sides = ("input", self.inputs, Tensor | Constant | Slice | None), ("output", self.outputs, Tensor | Slice)
        for side, arguments, kinds in sides:
            for i, argument in enumerate(arguments):
                if not isinstance(argument, kinds):
                    raise RuntimeError(f"{self.kernel}: {side} {i} is a {type(argument).__name__}, not {kinds}")

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @cached_property
    def read(self) -> tuple[Tensor | Constant, ...]:
        """The values that its inputs lie in."""
        return tuple(value_of(argument) for argument in self.inputs if argument is not None)

    @cached_property
    def written(self) -> tuple[Tensor, ...]:
        """The tensors that its outputs lie in."""
        return tuple(value for value in map(value_of, self.outputs) if isinstance(value, Tensor))


@dataclass(frozen=True, eq=False)
class Fetch(Call):
    """A copy of a constant that lies in memory without addresses: begun here, and made after the next ``Wait``."""

    @property
    def nbytes(self) -> int:
        """How many bytes it brings."""
        size = self.params["size"]
        return size if isinstance(size, int) else 0


class Wait:
    """Waits for what was fetched."""


@dataclass(frozen=True)
class Loop:
    """Instructions that run ``count`` times; their slices advance with every iteration."""

    count: int
    body: tuple[Call | Wait, ...]


Instruction = Call | Wait | Loop


@dataclass(frozen=True, eq=False)
class Step:
    """What one operator became: ``body`` is run; the call in it that computes the operator is ``call``.

    ``position`` counts the operators in execution order, also those that need no step; ``plan.lives`` counts so, too.
    ``scratch`` is the memory that its calls may use, if any; ``choice`` says which variant was taken, and why.
    """

    node: Node
    position: int
    call: Call
    body: tuple[Instruction, ...]
    scratch: Tensor | None = None
    choice: Choice = PLAIN

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of the body; the calls of a loop count once."""
        return tuple(calls_of(self.body))

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that its calls use, each once, in the order of first use; a fetch is none."""
        return tuple(dict.fromkeys(call.kernel for call in self.calls if not isinstance(call, Fetch)))

    @cached_property
    def read(self) -> tuple[Tensor | Constant, ...]:
        """The values that its calls read."""
        return tuple(value for call in self.calls for value in call.read)

    @cached_property
    def touched(self) -> tuple[Tensor, ...]:
        """The tensors in memory that its calls read or write, and its scratch."""
        return (*(value for value in self.read if isinstance(value, Tensor)), *self.written)

    @cached_property
    def written(self) -> tuple[Tensor, ...]:
        """The tensors that its calls write, decoded weights among them, and its scratch."""
        outputs = [tensor for call in self.calls for tensor in call.written]
        return tuple(dict.fromkeys(outputs if self.scratch is None else [*outputs, self.scratch]))


@dataclass(frozen=True, eq=False)
class If:
    """Steps that run if ``condition``, one byte, is not 0, and those that run if it is."""

    condition: Tensor
    then: Program
    orelse: Program


@dataclass(frozen=True, eq=False)
class While:
    """``test`` runs; while ``condition``, one byte, is not 0 then, ``body`` runs and ``test`` again."""

    condition: Tensor
    test: Program
    body: Program


class Alias:
    """A copy that is not needed: ``to`` has the memory of ``source``, and from here on its value. Nothing is run."""

    def __init__(self, source: Tensor, to: Tensor) -> None:
        self.source, self.to = source, to


@dataclass(frozen=True, eq=False)
class Layer:
    """A step that a chain runs by rows: ``height`` rows of its output, ``band`` of them at once.

    ``sources`` are the inputs that it reads by rows: each with its place in the call, and its height.
    """

    step: Step
    rows: Rows
    height: int
    band: int
    sources: tuple[tuple[int, Tensor, int], ...]

    @property
    def out(self) -> Tensor:
        """The tensor that it computes."""
        return self.step.call.written[0]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of its output; 0 if that has none and is written with the last row."""
        return 0 if self.rows.sums else self.out.nbytes // self.height


class Ring(NamedTuple):
    """Where a tensor of a chain keeps the rows that are still needed: ``capacity`` of them, one after another.

    When there is no room for more, the last ``kept`` rows move to the start of ``memory``.
    """

    memory: Tensor
    capacity: int
    kept: int


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps that run depth first, row by row.

    A layer computes its next rows when a later one asks for them (``plan/by_rows/schedule.py`` has the order). Tensors
    between them are ``rings``; the others are whole. ``backwards``: a lone layer goes from its last row to the first.
    With a ``feed`` the chain waits for rows of the graph's input, and keeps in ``progress`` how far its links are.
    ``views`` are copies between the layers that are not made: who reads one reads what it would copy. ``before`` brings
    what all layers need, ahead of the first row.
    """

    layers: tuple[Layer, ...]
    rings: Mapping[Tensor, Ring]
    backwards: bool = False
    feed: Feed | None = None
    progress: Tensor | None = None
    views: tuple[Step, ...] = ()
    before: tuple[Fetch | Wait, ...] = ()

    @property
    def links(self) -> tuple[Feed | Layer, ...]:
        """What gives rows, in order."""
        return self.layers if self.feed is None else (self.feed, *self.layers)


Part = Step | If | While | Alias | Chain

#: What a run does: steps, chains, and control flow over them.
Program = tuple[Part, ...]


def calls_of(body: Iterable[Instruction]) -> Iterator[Call]:
    """Every call; the calls of a loop come once."""
    for instruction in body:
        match instruction:
            case Call():
                yield instruction
            case Loop():
                yield from calls_of(instruction.body)
