"""``make mutants``: which planted faults the tests notice. ``python -m mutants --help`` with tests/ on PYTHONPATH."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

from mutants.journal import Journal
from mutants.judge import Judge, Verdict
from mutants.score import as_json, reached, report
from mutants.table import ROOT, Mutant, MutantError, read
from twinfer.command_line.terminal import progress, show


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("mutants", description=__doc__)
    parser.add_argument("--only", metavar="FILE", help="mutants of this file, as runtime/plan/make.py")
    parser.add_argument("--area", help="mutants of this area, as kernels_c")
    parser.add_argument("--quick", action="store_true", help="ask only the tests of the mutant's own file")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="copies of the project at work (2)")
    parser.add_argument("--fresh", action="store_true", help="ask for all anew; else what is in the journal holds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write scores and verdicts there")
    return parser.parse_args(words)


def chosen(mutants: list[Mutant], only: str | None, area: str | None) -> list[Mutant]:
    """The mutants of this file and area; MutantError if there are none."""
    asked = [m for m in mutants if only in (None, m.file) and area in (None, m.area)]
    if not asked:
        areas = ", ".join(sorted({m.area for m in mutants}))
        raise MutantError(f"no mutants of {only or area}; the areas are {areas}")
    return asked


def run(args: argparse.Namespace) -> bool:
    """Judges and reports. Returns whether every area reaches its goal."""
    mutants = chosen(read(), args.only, args.area)
    if args.quick:
        mutants = [replace(mutant, wide=()) for mutant in mutants]
    judged: list[tuple[Mutant, Verdict]] = []
    journal = Journal(ROOT / "build" / "mutants" / "journal.jsonl", fresh=args.fresh)
    with progress(len(mutants)) as bar:

        def told(mutant: Mutant, verdict: Verdict) -> None:
            judged.append((mutant, verdict))
            bar(len(judged), mutant.file, 0)

        try:
            Judge(ROOT, journal, args.jobs).judge(mutants, told)
        finally:  # report what is known
            judged.sort(key=lambda pair: mutants.index(pair[0]))
            tell(judged, args.json)
    return reached(judged)


def tell(judged: list[tuple[Mutant, Verdict]], path: Path | None) -> None:
    """Prints the table, and writes the JSON if a path is given."""
    show(report(judged))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(as_json(judged), indent=1) + "\n", "utf-8")


def main() -> int:
    """Exit status 0: every area reaches its goal; 1: one does not; 2: mutants or tests are unusable; 130:
    interrupted."""
    for number in (signal.SIGINT, signal.SIGTERM):  # shells ignore SIGINT for background processes
        signal.signal(number, signal.default_int_handler)
    try:
        return 0 if run(arguments()) else 1
    except MutantError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        print("interrupted; what is known is kept", file=sys.stderr)  # noqa: T201
        return 130


if __name__ == "__main__":
    sys.exit(main())
