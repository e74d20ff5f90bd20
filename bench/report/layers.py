"""The rows of a report: one per operator of the plan, and one per line of the ledger, which may join several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any

from twinfer.aot.build.sizes import WEIGHTS, Sizes
from twinfer.bench.explain.ledger import Ledger, Line
from twinfer.bench.report.noise import Layer, Noise, layer_of
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Step
from twinfer.runtime.registry import operator

Row = dict[str, Any]


def node_rows(plan: Plan, taken: Sizes | None, noises: Mapping[Layer, Noise]) -> list[Row]:
    """What every step of a plan is, reads, writes and weighs: shapes of outputs, bytes, MACs of one inference.

    Bytes of code and weights in flash are those of the layer alone, None without ``taken``.
    """
    names = names_of(plan)
    return [_node(i, step, names, taken, noises) for i, step in enumerate(plan.steps)]


def names_of(plan: Plan) -> dict[Tensor, str]:
    """A name for each tensor of the operators that no other has: readers and writers are found by it."""
    every = [*plan.graph.inputs, *plan.graph.outputs]
    every += [t for node in plan.nodes for t in (*node.inputs, *node.outputs) if t is not None]
    named, used = dict[Tensor, str](), set[str]()
    for tensor in dict.fromkeys(every):
        own = tensor.name or "without a name"
        named[tensor] = next(name for name in chain([own], (f"{own} ({n})" for n in count(2))) if name not in used)
        used.add(named[tensor])
    return named


def _node(i: int, step: Step, names: Mapping[Tensor, str], taken: Sizes | None, noises: Mapping[Layer, Noise]) -> Row:
    node, output = step.node, step.node.output
    own = taken.layer(i) if taken else {}
    noise = noises.get(layer_of(node))
    inputs = [tensor for tensor in node.inputs if tensor is not None]
    return {
        "position": i,
        "time": step.position,
        "index": node.index,
        "op": node.op,
        "family": family(node),
        "name": names[output],
        "shape": list(output.shape),
        "type": output.type,
        "kernel": step.call.kernel,
        "variant": step.choice.variant,
        "declined": [{"variant": name, "reason": reason} for name, reason in step.choice.declined],
        "macs": step.call.macs,
        "inputs": [names[tensor] for tensor in inputs if tensor.data is None],
        "outputs": [names[tensor] for tensor in node.outputs],
        "input_bytes": sum(tensor.nbytes for tensor in inputs if tensor.data is None),
        "output_bytes": sum(tensor.nbytes for tensor in node.outputs),
        "constant_bytes": sum(tensor.nbytes for tensor in inputs if tensor.data is not None),
        "code_bytes": own.get("code", 0) + own.get("params", 0) if taken else None,
        "weight_bytes": sum(own.get(group, 0) for group in WEIGHTS) if taken else None,
        "own_snr_db": None if noise is None else round(noise.own, 2),
        "total_snr_db": None if noise is None else round(noise.total, 2),
    }


def family(node: Node) -> str:
    """The folder of ``runtime/ops`` that a node's operator is in; custom for a user's own."""
    module = operator(node).lower.__module__
    return module.split(".")[-2] if module.startswith("twinfer.runtime.ops.") else "custom"


def views(plan: Plan) -> dict[str, str]:
    """Name of a value that costs nothing, for it is another one in another shape -> name of that."""
    stepped, names = {step.node for step in plan.steps}, names_of(plan)
    return {
        names[node.output]: names[node.inputs[0]]
        for node in plan.nodes
        if node not in stepped and node.outputs and node.inputs and node.inputs[0] is not None
    }


def layer_rows(ledger: Ledger, nodes: Sequence[Row]) -> list[Row]:
    """The lines of a ledger with MACs and bytes: sums over the steps that a line joins."""
    return [_layer(line, [nodes[i] for i in line.steps]) for line in ledger.lines]


def _layer(line: Line, steps: Sequence[Row]) -> Row:
    shape = steps[-1]["shape"] if steps else []
    sums = {key: _sum([step[key] for step in steps]) for key in ("macs", "code_bytes", "weight_bytes")}
    return {**line.document, "shape": shape, "kernels": [step["kernel"] for step in steps], **sums}


def _sum(values: Sequence[int | None]) -> int | None:
    """The sum; None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
