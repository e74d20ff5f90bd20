"""Ledgers and ladders of several models: ``python -m twinfer.bench.lab.explain MODEL ... --json FILE``.

``make bench-explain`` writes with it what docs/explain.md shows.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.progress import track

from twinfer.aot.build.targets import find
from twinfer.bench.explain.explained import Wanted, explained
from twinfer.bench.explain.techniques import chosen
from twinfer.bench.measure.report import document
from twinfer.bench.models.source import load
from twinfer.runtime.read.files import write_text
from twinfer.runtime.run import isa


def main() -> int:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("models", nargs="+", metavar="MODEL")
    command.add_argument("--target", default="host,cortex-m4,cortex-m55")
    command.add_argument("--seconds", type=float, default=10.0, help="for ledger and ladder each, on this computer")
    command.add_argument("--json", required=True, type=Path)
    arguments = command.parse_args()
    cards = [None if name == "host" else find(name, also=["host"]) for name in arguments.target.split(",")]
    pairs = [(model, card) for model in arguments.models for card in cards]
    rows = []
    for model, card in track(pairs, "explain"):
        techniques = chosen(None, card.target if card else isa.this_computer())
        *_, whole = explained(load(model), card, wanted=Wanted(seconds=arguments.seconds, techniques=techniques))
        rows.append(whole.document)
    write_text(arguments.json, json.dumps(document(rows), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
