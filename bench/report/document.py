"""The figures of a report as one JSON document, from which pages and comparisons are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from importlib.metadata import version
from typing import Any

from twinfer.aot.build.sizes import Sizes, sizes
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import emit
from twinfer.aot.print.literals import identifier
from twinfer.bench.explain.explained import MEASURED, Progress, Wanted, explained
from twinfer.bench.explain.ladder_report import told_ladder
from twinfer.bench.explain.ledger import Ledger
from twinfer.bench.explain.ledger_report import told
from twinfer.bench.measure.report import machine
from twinfer.bench.memory.certificate import certificate, described
from twinfer.bench.models.source import Source
from twinfer.bench.report.bands import bands
from twinfer.bench.report.layers import layer_rows, names_of, node_rows, views
from twinfer.bench.report.noise import Layer, Noise, noise
from twinfer.bench.report.remarks import remarks
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.plan import Plan
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
    *_, whole = explained(source, card, options, wanted, progress)
    ledger, ladder = whole.ledger, whole.ladder
    taken = sizes(emit(plan, identifier(source.name)), card) if card else None
    names, nodes = names_of(plan), node_rows(plan, taken, _noise(source, wanted.seed))
    document: dict[str, Any] = {
        **_about(source),
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
            **described(certified),
            "bands": [asdict(band) for band in bands(plan)],
            "operators": [f"{node.index} {node.op}" for node in plan.nodes],
        },
        "ledger": told(ledger),
        "ladder": told_ladder(ladder) if ladder else None,
        "same_bits": whole.same_bits,
        "flash": [asdict(symbol) for symbol in taken.symbols] if taken else [],
    }
    return Report(document, remarks=[asdict(remark) for remark in remarks(document)])


def _about(source: Source) -> dict[str, Any]:
    """What was measured, and with what."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "twinfer": version("twinfer"),
        "model": source.name,
        "sha256": source.sha256,
        "file_bytes": len(source.content),
        "machine": machine(),
    }


def _noise(source: Source, seed: int) -> Mapping[Layer, Noise]:
    """The noise of the model's layers; none where it cannot be computed, as in a model that no interpreter runs."""
    try:
        return noise(source.graph, seed)
    except TwinferError:
        return {}


def _totals(plan: Plan, ledger: Ledger, taken: Sizes | None) -> dict[str, Any]:
    """The figures of the whole model; bytes of flash and all RAM are None on a computer."""
    return {
        "interpreted": ledger.total.interpreted,
        "compiled": ledger.total.compiled,
        "macs": plan.macs,
        "arena_bytes": plan.arena_bytes,
        "state_bytes": plan.state_bytes,
        "scratch_bytes": plan.scratch_bytes,
        "constant_bytes": plan.constant_bytes,
        "ram_bytes": taken.ram_bytes if taken else None,
        "flash_bytes": taken.flash_bytes if taken else None,
        "code_bytes": taken.code_bytes if taken else None,
        "weight_bytes": taken.weight_bytes if taken else None,
    }
