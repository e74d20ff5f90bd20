"""Ledgers and ladders of several models on several targets: ``python -m twinfer.bench.explain MODEL ... --json FILE``.

``make bench-explain`` writes with it what docs/explain.md shows.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.progress import track

from twinfer.aot.build.targets import find
from twinfer.bench.explain.ladder import ladder_on, ladder_on_host
from twinfer.bench.explain.ladder_report import told_ladder
from twinfer.bench.explain.ledger_report import told
from twinfer.bench.explain.on_host import ledger_on_host
from twinfer.bench.explain.on_target import ledger_on
from twinfer.bench.explain.techniques import chosen
from twinfer.bench.measure.report import document
from twinfer.bench.models.source import Source, load
from twinfer.runtime.read.files import write_text
from twinfer.runtime.run import isa


def explained(source: Source, card: Any, seconds: float) -> dict[str, Any]:
    """The document of a model on a target, None for this computer, with the ladder."""
    if card is None:
        ledger = ledger_on_host(source, seconds=seconds)
        ladder = ladder_on_host(source, chosen(None, isa.this_computer()), seconds=seconds)
    else:
        ledger, ladder = ledger_on(source, card), ladder_on(source, card, chosen(None, card.target))
    return {**told(ledger), "ladder": told_ladder(ladder)}


def main() -> int:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("models", nargs="+", metavar="MODEL")
    command.add_argument("--target", default="host,cortex-m4,cortex-m55")
    command.add_argument("--seconds", type=float, default=10.0, help="for ledger and ladder each, on this computer")
    command.add_argument("--json", required=True, type=Path)
    arguments = command.parse_args()
    cards = [None if name == "host" else find(name, also=["host"]) for name in arguments.target.split(",")]
    pairs = [(model, card) for model in arguments.models for card in cards]
    rows = [explained(load(model), card, arguments.seconds) for model, card in track(pairs, "explain")]
    write_text(arguments.json, json.dumps(document(rows), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
