"""Graph -> Plan: which kernels run, with what, and where every byte lies. Interpreter and emitter only read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node, Tensor, need_graph
from twinfer.runtime.graph import check as check_graph
from twinfer.runtime.op import Array, Call, need
from twinfer.runtime.options import USUAL, Options, Printing
from twinfer.runtime.plan import arena, coding
from twinfer.runtime.registry import missing, operator
from twinfer.runtime.shapes import guarded, infer_node, infer_shapes
from twinfer.runtime.target import HOST, Target

#: The kernel of a call that only passes a value on; it is dropped where input and output share their memory.
COPY = "tw_copy"

#: Offsets and sizes are int32 in the kernels and in the emitted code.
MOST_BYTES = 1 << 31


@dataclass(frozen=True)
class Step:
    """One layer in execution order: its call, the node it came from, and the arena offset of its scratch block."""

    call: Call
    node: Node
    scratch: int = 0


@dataclass(frozen=True)
class Plan:
    """Everything that running needs.

    ``offsets`` gives the arena offset in bytes of every tensor that is not a constant; ``steps`` are the calls.
    ``arena_bytes`` is what the caller must provide, aligned to 16; ``lower_bound_bytes`` the least any placement of
    these blocks could need; ``scratch_bytes`` the largest scratch block. Sizes do not depend on the machine that
    planned. ``lives`` gives the first and last node over which a tensor keeps its value: -1 for an input, the number of
    nodes for an output. Inputs and outputs lie in the arena: inputs are written before the first step, outputs stay
    until the next run. ``start`` are calls that decode weights once, before the first run. ``lasting`` are the tensors
    that must keep their value from run to run: variables, and weights that were decoded at the start.
    """

    graph: Graph
    target: Target
    steps: tuple[Step, ...]
    offsets: Mapping[Tensor, int]
    lives: Mapping[Tensor, tuple[int, int]]
    arena_bytes: int
    lower_bound_bytes: int
    scratch_bytes: int
    variables: tuple[Tensor, ...]
    start: tuple[Step, ...] = ()
    lasting: tuple[Tensor, ...] = ()
    options: Options = USUAL

    def printed(self, **changes: Unpack[Printing]) -> Plan:
        """The same plan with other options of those that say how it is printed."""
        return replace(self, options=replace(self.options, **changes))

    @property
    def state(self) -> tuple[int, int]:
        """Offset and bytes of the part of the arena that holds all ``lasting`` tensors, and nothing else."""
        begin = min((self.offsets[t] for t in self.lasting), default=0)
        return begin, max((self.offsets[t] + t.nbytes for t in self.lasting), default=0) - begin

    @property
    def resets(self) -> bool:
        """Whether something has to be done before the first run."""
        return bool(self.variables or self.start)

    @property
    def macs(self) -> int:
        return sum(step.call.macs for step in self.steps)

    @property
    def constants(self) -> tuple[Array, ...]:
        """The constant arrays that the calls read, each once, in the order of first use."""
        found: dict[int, Array] = {}
        for arg in (arg for step in (*self.start, *self.steps) for call in step.call.calls for arg in call.inputs):
            array = arg.data if isinstance(arg, Tensor) else arg
            if array is not None:
                found.setdefault(id(array), array)
        return tuple(found.values())

    @property
    def constant_bytes(self) -> int:
        return sum(array.nbytes for array in self.constants)

    @property
    def decoding_bytes(self) -> int:
        """About what decoders of weights and what calls them take of flash, on a Cortex-M4."""
        names = [call.kernel for step in self.steps for call in step.call.calls[:-1]]
        names += [step.call.kernel for step in self.start]
        return coding.decoder_bytes(names) + coding.CALL_BYTES * len(names)


def make_plan(graph: Graph, target: Target = HOST, options: Options = USUAL) -> Plan:
    """Lower every node for ``target``, store its weights as ``options`` say, and place all tensors in one arena.

    Raises ModelError for a graph that contradicts itself and UnsupportedOperatorError for what twinfer has no kernel
    for.

    Shapes that the file leaves open are inferred first: ``plan.graph`` is the graph that was planned.
    """
    need_graph(graph)
    graph = infer_shapes(graph)
    check_graph(graph)
    _refuse_unsupported(graph)
    stored = coding.store([_lower(node, target) for node in graph.nodes], graph.nodes, target, options)
    calls = stored.calls
    variables = tuple(t for t in graph.tensors if t.variable)
    lives = _lives(graph, variables, stored, keep=options.preserve_all)
    owner = {t: t for t in lives} if options.preserve_all else _share(graph, calls, lives, variables)
    blocks, members = _blocks(lives, owner)
    scratch = [arena.Block(call.scratch, i, i) for i, call in enumerate(calls)]
    everything = [*blocks, *(block for block in scratch if block.size)]
    lasting = (*variables, *_decoded(stored, lives))
    row = [i for i, group in enumerate(members) if group[0] in lasting]
    places = _places(graph, everything, row, target.alignment)
    offsets = {t: places[i] for i, group in enumerate(members) for t in group}
    rest = iter(places[len(blocks) :])
    steps = [Step(c, n, next(rest) if c.scratch else 0) for c, n in zip(calls, graph.nodes, strict=True)]
    return Plan(
        graph,
        target,
        tuple(step for step in steps if not _dropped(step.call, offsets)),
        offsets,
        lives,
        arena.height(everything, places),
        arena.lower_bound(everything),
        max((call.scratch for call in calls), default=0),
        variables,
        tuple(Step(call, graph.nodes[i]) for call, i in stored.start),
        lasting,
        options,
    )


def _refuse_unsupported(graph: Graph) -> None:
    """One error that lists all operators that are missing, by name with counts; the first is described in full."""
    nodes = missing(graph)
    if not nodes:
        return
    try:
        operator(nodes[0])
    except UnsupportedOperatorError as error:
        names = [node.op for node in nodes]
        others = ", ".join(f"{name} x{names.count(name)}" for name in dict.fromkeys(names))
        raise UnsupportedOperatorError(f"{error}; unsupported in this model: {others}") from None


def _lower(node: Node, target: Target) -> Call:
    for tensor in (*node.inputs, *node.outputs):
        need(tensor is None or not tensor.too_large, node, f"{tensor} takes 2 GiB or more")
    for tensor, shape in zip(node.outputs, infer_node(node), strict=True):
        need(shape == tensor.shape, node, f"the model says {tensor}, but the inputs give shape {list(shape)}")
    return guarded(node, lambda: operator(node).lower(node, target))


def _arena_tensors(call: Call) -> Iterator[Tensor]:
    for arg in (arg for part in call.calls for arg in (*part.inputs, *part.outputs)):
        if isinstance(arg, Tensor) and arg.data is None:
            yield arg


def _lives(
    graph: Graph, variables: Sequence[Tensor], stored: coding.Stored, *, keep: bool
) -> dict[Tensor, tuple[int, int]]:
    """First and last step of every tensor that needs memory; an output that a constant feeds is in the arena, too.

    What is decoded at the start and read by a step is kept for ever; a decoder's table is not read by any.
    """
    calls, end = stored.calls, len(stored.calls)
    lives: dict[Tensor, tuple[int, int]] = {t: (-1, -1) for t in graph.inputs if t.data is None}
    for tensor in (tensor for call, _ in stored.start for tensor in call.outputs):
        lives[tensor] = (-1, -1)
    for i, call in enumerate(calls):
        for tensor in _arena_tensors(call):
            first, _ = lives.get(tensor, (i, i))
            lives[tensor] = (first, i)
    for call, i in stored.start:
        lives.update((tensor, (-1, end)) for tensor in call.outputs if tensor is calls[i].inputs[1])
    for tensor in graph.outputs:
        if tensor.data is None:
            lives[tensor] = (lives.get(tensor, (end, end))[0], end)
    for tensor in variables:
        lives[tensor] = (-1, end)
    for tensor in lives:
        if tensor.too_large:
            raise UnsupportedOperatorError(f"graph {graph.name!r}: {tensor} takes 2 GiB or more; split it")
    return dict.fromkeys(lives, (-1, end)) if keep else lives


def _decoded(stored: coding.Stored, lives: Mapping[Tensor, tuple[int, int]]) -> Iterator[Tensor]:
    """The weights that are decoded once and read in every run; a decoder's table is not."""
    for call, _ in stored.start:
        yield from (tensor for tensor in call.outputs if lives[tensor] == (-1, len(stored.calls)))


def _share(
    graph: Graph, calls: Sequence[Call], lives: dict[Tensor, tuple[int, int]], variables: Sequence[Tensor]
) -> dict[Tensor, Tensor]:
    """Which tensor's block each tensor uses: outputs take over the memory of an input that dies in the same call."""
    owner = {t: t for t in lives}
    kept = {*variables, *graph.outputs}
    for i, call in enumerate(calls):
        out = call.outputs[0] if call.outputs else None
        if out is None or out not in lives or out in variables:
            continue
        for position in call.inplace:
            source = call.inputs[position]
            if not isinstance(source, Tensor) or source not in lives or source in kept:
                continue
            once = sum(arg is source for arg in call.inputs) == 1  # count() would compare arrays
            if lives[source][1] == i and source.nbytes == out.nbytes and once:
                owner[out] = owner[source]
                break
    return owner


def _blocks(
    lives: dict[Tensor, tuple[int, int]], owner: dict[Tensor, Tensor]
) -> tuple[list[arena.Block], list[list[Tensor]]]:
    groups: dict[Tensor, list[Tensor]] = {}
    for tensor in lives:
        groups.setdefault(owner[tensor], []).append(tensor)
    blocks = [
        arena.Block(max(t.nbytes for t in group), min(lives[t][0] for t in group), max(lives[t][1] for t in group))
        for group in groups.values()
    ]
    return blocks, list(groups.values())


def _places(graph: Graph, blocks: Sequence[arena.Block], lasting: Sequence[int], alignment: int) -> list[int]:
    """Offsets of the blocks, proven, ``lasting`` in a row; UnsupportedOperatorError if they reach too far."""
    places = arena.in_a_row(blocks, arena.place(blocks, alignment), lasting, alignment)
    if arena.height(blocks, places) >= MOST_BYTES:
        raise UnsupportedOperatorError(f"graph {graph.name!r}: its tensors need an arena of 2 GiB or more")
    if faults := arena.check(blocks, places, alignment):
        raise RuntimeError(f"the arena planner is wrong: {faults[0]}")
    return places


def _dropped(call: Call, offsets: dict[Tensor, int]) -> bool:
    """Whether a call passes on a value that is in place already, or makes nothing at all."""
    if all(out.size == 0 for out in call.outputs):
        return True
    source = call.inputs[0] if call.kernel == COPY else None
    return isinstance(source, Tensor) and source in offsets and offsets[source] == offsets[call.outputs[0]]


def random_inputs(graph: Graph, seed: int = 0) -> list[Array]:
    """One seeded value per graph input: integers over the whole range of their type, floats (of complex numbers
    the real parts) normal with sigma 1."""
    rng = np.random.default_rng(seed)
    values: list[Array] = []
    for t in graph.inputs:
        if t.dtype.kind in "fc":
            values.append(rng.standard_normal(t.shape).astype(t.dtype))
        elif t.dtype.kind == "b":
            values.append(rng.integers(0, 2, t.shape).astype(bool))
        else:
            info = np.iinfo(t.dtype)
            values.append(rng.integers(info.min, info.max, t.shape, dtype=t.dtype, endpoint=True))
    return values
