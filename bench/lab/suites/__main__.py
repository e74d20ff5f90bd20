"""``make suites``: how much of what others wrote converts; ``python -m twinfer.bench.lab.suites --help``.

Without ``-k`` the outcomes are written to ``bench/lab/data/coverage/<suite>.tsv``, and docs/coverage.md anew of all.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.progress import track

from twinfer.bench.lab.suites.page import KEPT, PAGE, read, text, write
from twinfer.bench.lab.suites.suite import KINDS, Outcome, run
from twinfer.bench.measure.report import table
from twinfer.runtime.printable import printable

SUITES = ("onnx", "keras", "torch", "ort")


def main(words: Sequence[str] | None = None) -> None:
    """Runs the suites and shows what is refused, wrong or failed by subject and cause."""
    parser = argparse.ArgumentParser("suites", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)} (default: all)")
    parser.add_argument("-k", default="", metavar="TEXT", help="only cases with this in their name or subject")
    parser.add_argument("--again", action="store_true", help="only cases that have not passed, by what is kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="cases at once (cores)")
    parser.add_argument(
        "--compiled",
        nargs="?",
        type=int,
        const=1,
        default=0,
        metavar="N",
        help="compile every Nth model (1), too: the same bits (takes long)",
    )
    parser.add_argument("--all", action="store_true", help="show every case that has not passed, not only causes")
    given = parser.parse_args(words)
    for name in given.suites or SUITES:
        cases = list(import_module(f"twinfer.bench.lab.suites.{name}").cases())
        kept = {outcome.name: outcome for outcome in read(name)}
        asked = [c for c in cases if given.k.lower() in f"{c.name} {c.subject}".lower()]
        if given.again:
            asked = [c for c in asked if c.name not in kept or kept[c.name].kind != "passed"]
        console = Console()
        done = list(
            track(
                run(asked, given.jobs, compiled=given.compiled),
                f"{name}: {len(asked)} cases",
                len(asked),
                console=console,
            )
        )
        _show(console, name, done, every=given.all or bool(given.k))
        if not given.k:
            kept = {c.name: kept[c.name] for c in cases if c.name in kept} | {each.name: each for each in done}
            write(name, kept.values())
    if not given.k:
        PAGE.write_text(text({path.stem: read(path.stem) for path in sorted(Path(KEPT).glob("*.tsv"))}))


def _show(console: Console, name: str, outcomes: Sequence[Outcome], *, every: bool) -> None:
    counts = Counter(outcome.kind for outcome in outcomes)
    shown = table(f"{name}: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS), "<subject", "cases", "<outcome")
    groups = defaultdict[tuple[str, str], list[Outcome]](list)
    for outcome in outcomes:
        if outcome.kind != "passed":
            groups[outcome.name if every else outcome.subject, f"{outcome.kind}: {outcome.cause}"[:240]].append(outcome)
    for (subject, cause), members in sorted(groups.items(), key=lambda each: (-len(each[1]), each[0])):
        shown.add_row(printable(subject), str(len(members)), printable(cause))
    console.print(shown)


if __name__ == "__main__":
    main()
