"""The figures of a report as one JSON document, from which pages and comparisons are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from html import escape
from importlib.metadata import version
from typing import Any

from twinfer.aot.build.sizes import WEIGHTS, Sizes, sizes
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import emit
from twinfer.aot.print.literals import identifier
from twinfer.bench.explain.explain import MEASURED, Progress, Wanted, explain
from twinfer.bench.explain.ledger import Ledger
from twinfer.bench.measure.report import machine
from twinfer.bench.memory.certificate import certificate, certificate_document
from twinfer.bench.models.source import Source
from twinfer.bench.page.chart import distinct
from twinfer.bench.report.maps import bands
from twinfer.bench.report.noise import Layer, Noise, layer_of, noise
from twinfer.bench.report.remarks import remarks
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Step
from twinfer.runtime.registry import operator
from twinfer.runtime.run import isa

#: Rises when a key of the JSON goes or changes its meaning. New keys do not count.
SCHEMA = 1

#: What marks the JSON as a report's.
KIND = "twinfer report"


class Report(dict[str, Any]):
    """The document of a report; docs/report.md says what its keys mean. In a notebook it shows itself as its page."""

    def _repr_html_(self) -> str:
        from twinfer.bench.report.html import report_html

        return f'<iframe srcdoc="{escape(report_html(self))}" style="width: 100%; height: 45rem; border: 0"></iframe>'


def report_of(
    source: Source,
    card: Card | None = None,
    options: Options = USUAL,
    wanted: Wanted = MEASURED,
    progress: Progress = lambda share: None,
) -> Report:
    """The report of a model on a card's core, or on this computer without one, with ``options`` for plan and C.

    ToolError if the model cannot be built or run there, and what planning raises.
    """
    certified = certificate(source.graph, isa.this_computer() if card is None else card.target, options)
    plan = certified.plan
    *_, whole = explain(source, card, options, wanted, progress)
    ledger, ladder = whole.ledger, whole.ladder
    taken = sizes(emit(plan, identifier(source.name)), card) if card else None
    noises: Mapping[Layer, Noise] = {}
    with suppress(TwinferError):  # in a model that no interpreter runs
        noises = noise(source.graph, wanted.seed)
    names, nodes = names_of(plan), node_rows(plan, taken, noises)
    document: dict[str, Any] = {
        "kind": KIND,
        "schema": SCHEMA,
        "twinfer": version("twinfer"),
        "model": source.name,
        "sha256": source.sha256,
        "file_bytes": len(source.content),
        "machine": machine(),
        "target": ledger.target,
        "unit": ledger.unit,
        "options": {**asdict(options), "without": sorted(options.without)},
        "totals": _totals(plan, ledger, taken),
        "layers": layer_rows(ledger, nodes),
        "nodes": nodes,
        "inputs": [names[tensor] for tensor in plan.graph.inputs],
        "outputs": [names[tensor] for tensor in plan.graph.outputs],
        "views": views(plan),
        "memory": {
            **certificate_document(certified),
            "bands": [asdict(band) for band in bands(plan)],
            "operators": [f"{node.index} {node.op}" for node in plan.nodes],
        },
        "ledger": ledger.document,
        "ladder": ladder.document if ladder else None,
        "same_bits": whole.same_bits,
        "flash": [asdict(symbol) for symbol in taken.symbols] if taken else [],
    }
    return Report(document, remarks=[asdict(remark) for remark in remarks(document)])


def _totals(plan: Plan, ledger: Ledger, taken: Sizes | None) -> dict[str, Any]:
    """The figures of the whole model; bytes of flash and all RAM are None on a computer."""
    planned = ("macs", "arena_bytes", "state_bytes", "scratch_bytes", "constant_bytes")
    built = ("ram_bytes", "flash_bytes", "code_bytes", "weight_bytes")
    return {
        "interpreted": ledger.total.interpreted,
        "compiled": ledger.total.compiled,
        **{key: getattr(plan, key) for key in planned},
        **{key: getattr(taken, key, None) for key in built},
    }


# -- rows of operators and of lines ------------------------------------------------------------------------------------


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
    tensors = list(dict.fromkeys(every))
    return dict(zip(tensors, distinct([tensor.name or "without a name" for tensor in tensors]), strict=True))


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
    rows = []
    for line in ledger.lines:
        steps = [nodes[i] for i in line.steps]
        shape = steps[-1]["shape"] if steps else []
        sums = {key: _sum([step[key] for step in steps]) for key in ("macs", "code_bytes", "weight_bytes")}
        rows.append({**line.document, "shape": shape, "kernels": [step["kernel"] for step in steps], **sums})
    return rows


def _sum(values: Sequence[int | None]) -> int | None:
    """The sum; None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
