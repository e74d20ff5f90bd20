"""What ``twinfer inspect --json`` says about a model."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from twinfer.command_line.show.memory import ArenaMap
from twinfer.converter.offline.stored import stored_plan
from twinfer.runtime.control import CONTROL
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph, Node, Tensor, walk
from twinfer.runtime.ops.core.unsigned import is_added
from twinfer.runtime.ops.functions._table import stacked_of
from twinfer.runtime.passes.folding import FOLDED
from twinfer.runtime.passes.unsigned import make_node_signed
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Call, Step
from twinfer.runtime.registry import missing
from twinfer.runtime.shapes import guarded, infer_node
from twinfer.runtime.target import GENERIC, HOST, Target

#: The version of the JSON: it rises when a key changes its meaning or goes.
SCHEMA = 1

#: What a plan takes, as keys of the JSON.
_BYTES = ("arena_bytes", "state_bytes", "lower_bound_bytes", "scratch_bytes", "constant_bytes")


def describe(name: str, graph: Graph, plan: Plan | None, reason: str) -> dict[str, Any]:
    """Everything that the text shows, for programs."""
    stored = stored_plan(graph)
    return {
        "schema": SCHEMA,
        "model": name,
        "description": graph.description,
        "inputs": [_tensor(t) for t in graph.inputs],
        "outputs": [_tensor(t) for t in graph.outputs],
        "operators": [_operator(node, step, plan) for node, step in planned_nodes(graph, plan)],
        "subgraphs": [[node.op for node in other.nodes] for other in graph.subgraphs],
        "signatures": {
            s.key: {"subgraph": s.subgraph, "inputs": sorted(s.inputs), "outputs": sorted(s.outputs)}
            for s in graph.signatures
        },
        "metadata": {name: len(value) for name, value in graph.metadata.items()},
        "stored_plan": asdict(stored) if stored else None,
        "constant_bytes": constant_bytes(graph),
        "unsupported": unsupported(graph),
        "problem": reason or None,
        "plan": _plan(plan) if plan else None,
        "targets": targets(plan) if plan else [],
    }


def unsupported(graph: Graph) -> dict[str, int]:
    """How often the graph and all its subgraphs have each operator that no kernel computes."""
    return dict(Counter(node.op for one in walk(graph) for node in missing(one.nodes)))


def constant_bytes(graph: Graph) -> int:
    """Bytes of all constant tensors of the file, those of other subgraphs included; equal ones share a buffer there."""
    values = [t.data.tobytes() for g in walk(graph) for t in g.tensors if t.data is not None]
    return sum(len(value) for value in set(values))


def _tensor(tensor: Tensor) -> dict[str, Any]:
    quant = tensor.quant
    return {
        "name": tensor.name,
        "type": tensor.type,
        "shape": list(tensor.shape),
        "scale": [float(s) for s in quant.scale] if quant else None,
        "zero_point": [int(z) for z in quant.zero_point] if quant else None,
    }


def _operator(node: Node, step: Step | None, plan: Plan | None) -> dict[str, Any]:
    call = step.call if step else None
    return {
        "index": node.index,
        "op": node.op,
        "added": is_added(node),
        "folded": node.options.get(FOLDED),
        "stacked": list(stacked.others) if (stacked := stacked_of(node)) else [],
        "kernel": call.kernel if call else None,
        "variant": step.choice.variant if step else None,
        "declined": [{"variant": name, "reason": why} for name, why in step.choice.declined] if step else [],
        "inputs": [_tensor(t) for t in node.inputs if t is not None and t.data is None],
        "outputs": [_tensor(t) for t in node.outputs],
        "macs": call.macs if call else 0 if plan else None,
        "constant_bytes": sum(t.data.nbytes for t in node.inputs if t is not None and t.data is not None),
    }


def planned_nodes(graph: Graph, plan: Plan | None) -> Iterator[tuple[Node, Step | None]]:
    """The graph's nodes as they were planned, each with its step, among them conversions that planning added.

    There is no step where a value is in place already, or where planning computed it: then it is a constant. Without a
    plan, the nodes are as they are.
    """
    if plan is None:
        yield from ((node, None) for node in graph.nodes)
        return
    steps = {step.node: step for step in plan.steps}
    yield from ((node, steps.get(node)) for node in merge(graph, plan.graph))


def called_nodes(graph: Graph, planned: Graph, target: Target) -> Iterator[tuple[Node, Call | None]]:
    """The nodes of a subgraph that stands in its callers' places, each with the call that it becomes there."""
    for node in merge(graph, planned):
        call: Call | None = None
        with suppress(TwinferError):  # of a subgraph that nothing calls
            if node.op not in CONTROL:
                infer_node(node)
                call = guarded(node, lambda node=node: lower_node(make_node_signed(node), target)[0])  # type: ignore[misc]
        yield node, call


def merge(graph: Graph, planned: Graph) -> Iterator[Node]:
    """The nodes of a planned graph in order, and among them those of the file that planning has computed."""
    # Planning keeps the position of every tensor; it may add others behind them.
    into = dict[int, int]()  # indices of the operators that planning has folded into others
    for each in planned.nodes:
        stacked = stacked_of(each)
        folded = (*((each.options[FOLDED],) if FOLDED in each.options else ()), *(stacked.others if stacked else ()))
        into.update(dict.fromkeys(folded, each.index))
    final: dict[Tensor | None, Tensor] = dict(zip(graph.tensors, planned.tensors, strict=False))
    waiting = deque(planned.nodes)
    for node in graph.nodes:
        inputs, outputs = tuple(map(final.get, node.inputs)), tuple(final[tensor] for tensor in node.outputs)
        own = next((each for each in waiting if not is_added(each)), None)
        # A planned node is that of the file if its tensors are these now or, of uint8, have twins.
        same = own is not None and (own.outputs == outputs or any(t.data is None for t in outputs))
        if own is None or not same or (own.op, own.index) != (node.op, node.index):
            options = {**node.options, FOLDED: into[node.index]} if node.index in into else node.options
            yield replace(node, inputs=inputs, outputs=outputs, options=options)
            continue
        while waiting[0] is not own:
            yield waiting.popleft()
        yield waiting.popleft()
    yield from waiting


def _plan(plan: Plan) -> dict[str, Any]:
    arena, nodes = ArenaMap(plan), plan.nodes
    scratch = {step.scratch for step in plan.steps}
    peak = {"index": nodes[arena.peak].index, "bytes": arena.live_bytes(arena.peak)} if nodes else None
    return {
        "target": plan.target.name,
        "macs": plan.macs,
        **{key: getattr(plan, key) for key in _BYTES},
        "peak": peak,
        "tensors": [
            {"name": t.name, "offset": at, "bytes": t.nbytes, "first": plan.lives[t][0], "last": plan.lives[t][1]}
            for t, at in plan.offsets.items()
            if t not in scratch
        ],
    }


def targets(plan: Plan) -> list[dict[str, Any]]:
    """Bytes that a planned model takes on a SIMD host, on a 32-bit microcontroller in plain C, and as planned."""
    every = dict.fromkeys((HOST, GENERIC, plan.target))
    plans = [plan if target == plan.target else make_plan(plan.graph, target) for target in every]
    return [{"target": each.target.name, **{key: getattr(each, key) for key in _BYTES}} for each in plans]
