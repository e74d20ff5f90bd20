"""The certificate of a plan's memory: its bytes, the bound, what forces them, and priced hints, each one planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from twinfer.bench.memory.halve import halve
from twinfer.runtime.errors import InvalidArgumentError, TwinferError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.passes.ends import INTEGERS, with_io
from twinfer.runtime.plan.by_rows.layers import layer_of
from twinfer.runtime.plan.by_rows.price import rows_share
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.regions.traffic import costs
from twinfer.runtime.program import Chain, Layer, Step
from twinfer.runtime.target import Target


@dataclass(frozen=True)
class Forced:
    """What forces the peak: ``layer`` in words, at ``position`` among the operators; what is live there, in bytes."""

    position: int
    layer: str
    nbytes: int
    tensors: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class End:
    """An operator beside a chain, or at the peak, that cannot run by rows: ``layer`` and ``why`` in words.

    ``nbytes`` are those of its inputs and outputs, which lie whole.
    """

    layer: str
    why: str
    nbytes: int


@dataclass(frozen=True)
class Hint:
    """A change that was planned: RAM in bytes, its change as a share, and that of instructions (estimated; None: no
    estimate).

    ``kind`` is rows, layers, input_rows, input_in_place, int8_input, int16_input or channels; ``text`` says it.
    """

    kind: str
    text: str
    ram_bytes: int
    ram_change: float
    instructions_change: float | None


@dataclass(frozen=True)
class Certificate:
    """The certificate of a model's memory on a target."""

    graph: Graph
    plan: Plan

    @cached_property
    def forced_by(self) -> Forced:
        """The first operator at which most bytes are live."""
        plan, at = self.plan, self.plan.forced_at
        tensors = tuple((tensor.name, tensor.nbytes) for tensor in _at_peak(plan))
        return Forced(at, _layer(plan, at), plan.lower_bound_bytes, tensors)

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """The operators that end a chain, in order, and the one at the peak if it cannot run by rows.

        One whose values take less than a tenth of the arena is left out.
        """
        if self.plan.options.memory == "layers":
            return ()
        return tuple(end for end in _ends(self.plan) if 10 * end.nbytes >= self.plan.arena_bytes)

    @cached_property
    def hints(self) -> tuple[Hint, ...]:
        """What would change the memory, the largest saving first; a change that saves nothing is left out."""
        hints = [hint for hint in _hints(self) if hint.ram_change < 0]
        return tuple(sorted(hints, key=lambda hint: hint.ram_bytes))


def certificate(graph: Graph, target: Target, options: Options) -> Certificate:
    """Plan a model for a target; raises what ``make_plan`` does."""
    return Certificate(graph, make_plan(graph, target, options))


def _at_peak(plan: Plan) -> list[Tensor]:
    """The tensors that hold a value in an arena where most bytes are live, the largest first."""
    live = [tensor for tensor, (first, last) in plan.lives.items() if first <= plan.forced_at <= last]
    here = [tensor for tensor in live if tensor in plan.places and plan.places[tensor].region.kind == "arena"]
    return sorted(here, key=lambda tensor: (-tensor.nbytes, plan.offsets[tensor]))


def _layer(plan: Plan, position: int) -> str:
    """The layer at a position in words, or the chain that it is in."""
    for part in (part for part in plan.program if isinstance(part, Chain)):
        steps = [layer.step.position for layer in part.layers]
        if (-1 if part.feed else steps[0]) <= position <= (steps[-1] if steps else -1):
            return chain_name(part)
    if not 0 <= position < len(plan.nodes):
        return "the graph's inputs and outputs"
    return f"operator {plan.nodes[position].index} {plan.nodes[position].op}"


def _ends(plan: Plan) -> Iterator[End]:
    heights = dict[Tensor, int]()
    for i, part in enumerate(plan.program):
        steps = (*(link.step for link in part.layers), *part.views) if isinstance(part, Chain) else (part,)
        for step in (each for each in steps if isinstance(each, Step)):
            layer = layer_of(step, heights)
            if isinstance(layer, Layer):
                heights |= {layer.out: layer.height} if layer.rows.flat else {}
            elif isinstance(part, Step) and (_beside_a_chain(plan, i) or step.position == plan.forced_at):
                whole = {tensor for tensor in (*step.call.read, *step.call.written) if isinstance(tensor, Tensor)}
                yield End(_layer(plan, step.position), layer, sum(tensor.nbytes for tensor in whole))


def _beside_a_chain(plan: Plan, place: int) -> bool:
    return any(isinstance(part, Chain) for part in plan.program[max(0, place - 1) : place + 2])


def chain_name(chain: Chain) -> str:
    """A chain in words: rows of operators 0-3."""
    given = ["the input"] if chain.feed else []
    layers = [f"operator{'s' * (len(chain.layers) > 1)} {_numbers(chain)}"] if chain.layers else []
    return f"rows of {' and '.join([*given, *layers])}"


def _numbers(chain: Chain) -> str:
    """The operators of a chain: 2, or 0-3."""
    ends = chain.layers[0].step.node.index, chain.layers[-1].step.node.index
    return "-".join(map(str, dict.fromkeys(ends)))


def _hints(certificate: Certificate) -> Iterator[Hint]:
    plan, graph = certificate.plan, certificate.graph
    options = replace(plan.options, ram=0)
    by_rows = replace(options, memory="rows")
    yield from _hint(plan, "rows", "", graph, by_rows)
    if not (options.input_rows or options.input_in_place or options.weights_as != "linked"):
        yield from _hint(plan, "input_rows", "input by rows", graph, replace(by_rows, input_rows=True))
        in_place = replace(options, input_in_place=True)
        yield from _hint(plan, "input_in_place", "input in place (--input-in-place)", graph, in_place)
    for io in INTEGERS:
        with suppress(InvalidArgumentError):
            if (changed := with_io(graph, io)) is not graph:
                yield from _hint(plan, f"{io}_input", f"{io} input and output (--io {io})", changed, options)
    if (largest := _largest(graph, plan)) is not None and (half := halve(graph, largest)) is not None:
        writer = next(node for node in graph.nodes if largest in node.outputs)
        what = f"half the channels of operator {writer.index} {writer.op}"
        yield from _hint(plan, "channels", what, half, options)


def _largest(graph: Graph, plan: Plan) -> Tensor | None:
    """The tensor of the file that is the largest at the peak, of those that an operator computes.

    The plan's tensors are the file's or, if planning changed their type, others of the same name. Rows of a tensor
    count as it.
    """
    rows = {r.memory: t for part in plan.program if isinstance(part, Chain) for t, r in part.rings.items()}
    computed = [tensor for node in graph.nodes for tensor in node.outputs]
    named = {(tensor.name, tensor.shape): tensor for tensor in computed if tensor.name}
    for live in _at_peak(plan):
        tensor = rows.get(live, live)
        own = tensor if tensor in computed else named.get((tensor.name, tensor.shape))
        if own is not None:
            return own
    return None


def _hint(before: Plan, kind: str, what: str, graph: Graph, options: Options) -> Iterator[Hint]:
    """The hint that this graph with these options is; none if it cannot be planned."""
    try:
        plan = make_plan(graph, before.target, options)
    except TwinferError:
        return
    change = plan.memory_bytes / max(before.memory_bytes, 1) - 1
    extra = (1 + rows_share(plan)) / (1 + rows_share(before)) - 1 if kind in ("rows", "input_rows") else None
    if kind == "rows":
        what = f"operators {', '.join(_numbers(p) for p in plan.program if isinstance(p, Chain) and p.layers)} by rows"
    price = "" if extra is None else f", {100 * extra:+.1f} % instructions (estimated)"
    saved = f" ({plan.memory_bytes - before.memory_bytes:+,} bytes)"
    yield Hint(kind, f"{what}: {100 * change:+.0f} %{saved}{price}", plan.memory_bytes, change, extra)


def certificate_document(certificate: Certificate) -> dict[str, object]:
    """The certificate for programs."""
    plan, forced = certificate.plan, certificate.forced_by
    return {
        "arena_bytes": plan.arena_bytes,
        "state_bytes": plan.state_bytes,
        "regions": {region.value: extent.nbytes for region, extent in plan.regions.items()},
        "traffic_costs": {region.value: cost for region, cost in costs(plan).items()},
        "lower_bound_bytes": plan.lower_bound_bytes,
        "proven": plan.proven,
        "forced_by": {
            "position": forced.position,
            "layer": forced.layer,
            "bytes": forced.nbytes,
            "tensors": [{"name": name, "bytes": size} for name, size in forced.tensors],
        },
        "ends": [{"layer": end.layer, "why": end.why, "bytes": end.nbytes} for end in certificate.ends],
        "hints": [
            {
                "kind": hint.kind,
                "text": hint.text,
                "ram_bytes": hint.ram_bytes,
                "ram_change": round(hint.ram_change, 4),
                "instructions_change": None if hint.instructions_change is None else round(hint.instructions_change, 4),
            }
            for hint in certificate.hints
        ],
    }
