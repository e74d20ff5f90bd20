"""``make sweep``: every command over every model. ``python -m sweep --help`` with tests/ and tests/tools on PYTHONPATH.

A command is done, or refused in words, or it failed: a traceback, a crash, a limit, other bits, a file half written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from needs import ROOT
from rich.table import Table
from rich.text import Text

from sweep.judge import SECONDS, Outcome, judge
from sweep.tasks import GROUPS, Model, Task, chosen, corpus, tasks
from twinfer.bench.measure.report import table
from twinfer.command_line.terminal import progress, show

FOLDER = ROOT / "build" / "sweep"

KINDS = ("done", "refused", "failed")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser("sweep", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="these models (default: the corpus, built-in ones)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="commands at once (cores)")
    parser.add_argument("--dask", metavar="ADDRESS", help="run on this Dask cluster, which sees the same folders")
    parser.add_argument("--groups", default=",".join(GROUPS), help="groups of commands, with commas (%(default)s)")
    parser.add_argument("--sample", type=int, metavar="N", help="so many models of the corpus, chosen by content")
    parser.add_argument("--every", action="store_true", help="every target in every way to compile: 18 times as much")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the most that a command may take (%(default)s)")
    parser.add_argument("--again", action="store_true", help="run what failed again, whatever the journal holds of it")
    parser.add_argument("--fresh", action="store_true", help="run all anew; else what is in the journal holds")
    parser.add_argument("--json", type=Path, default=FOLDER / "sweep.json", metavar="FILE", help="write outcomes there")
    return parser.parse_args(words)


class Journal:
    """Outcomes of tasks by model, group and commands, a line each, so that a stopped sweep goes on where it was.

    They hold until the model or the commands change; ``--fresh`` and ``--again`` are for changes of the code.
    """

    def __init__(self, path: Path, *, fresh: bool, again: bool) -> None:
        self.path, self.known = path, dict[str, list[Outcome]]()
        path.parent.mkdir(parents=True, exist_ok=True)
        if fresh or not path.exists():
            path.write_text("", "utf-8")
        for line in path.read_text("utf-8").splitlines():
            if line.endswith("}"):  # a line that was cut off holds nothing
                row = json.loads(line)
                self.known[row["key"]] = [Outcome(**each) for each in row["outcomes"]]
        if again:
            failed = [key for key, outcomes in self.known.items() if any(o.kind == "failed" for o in outcomes)]
            for key in failed:
                del self.known[key]

    def keep(self, task: Task, outcomes: Sequence[Outcome]) -> None:
        self.known[key_of(task)] = [*outcomes]
        line = json.dumps({"key": key_of(task), "outcomes": [asdict(outcome) for outcome in outcomes]})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def key_of(task: Task) -> str:
    """What an outcome depends on beside the code."""
    told = repr((task.model, Model(task.model).number, task.group, task.commands))
    return hashlib.sha256(told.encode()).hexdigest()


def judged(waiting: Sequence[Task], args: argparse.Namespace) -> Iterator[tuple[Task, list[Outcome]]]:
    """Tasks with their outcomes, as they come."""
    if args.dask:
        from dask.distributed import Client
        from dask.distributed import as_completed as completed

        with Client(args.dask) as client:
            of = {client.submit(judge, task, args.seconds, pure=False): task for task in waiting}
            yield from ((of[future], future.result()) for future in completed(of))
        return
    with ThreadPoolExecutor(args.jobs) as pool:  # threads only wait: each command is a process
        futures: dict[Future[list[Outcome]], Task] = {pool.submit(judge, task, args.seconds): task for task in waiting}
        try:
            yield from ((futures[future], future.result()) for future in as_completed(futures))
        finally:
            pool.shutdown(cancel_futures=True)


def run(args: argparse.Namespace) -> list[Outcome]:
    """Runs what the journal does not hold; the outcomes of all."""
    models = [Model(str(Path(m).resolve()) if Path(m).exists() else m) for m in args.models] or corpus()
    models = chosen(models, args.sample) if args.sample else sorted(models, key=lambda model: model.number)
    every = tasks(models, args.groups.split(","), every=args.every)
    journal = Journal(FOLDER / "journal.jsonl", fresh=args.fresh, again=args.again)
    waiting = [task for task in every if key_of(task) not in journal.known]
    with progress(len(every)) as bar:
        bar(len(every) - len(waiting), "", 0)
        try:
            for done, (task, outcomes) in enumerate(judged(waiting, args), len(every) - len(waiting) + 1):
                journal.keep(task, outcomes)
                bar(done, f"{task.group} {Path(task.model).stem}"[:24], 0)
        except KeyboardInterrupt:
            show([Text("interrupted; what is known is kept")])
    known = (journal.known.get(key_of(task), []) for task in every)
    return [outcome for outcomes in known for outcome in outcomes]


def report(outcomes: Iterable[Outcome]) -> Iterator[Table | Text]:
    """The table of commands by outcome, then every failure with its command line, those of one reason together."""
    listed = list(outcomes)
    counts = Counter((outcome.label, outcome.kind) for outcome in listed)
    lines = table(f"{len({o.model for o in listed}):,} models, {len(listed):,} commands", "<command", *KINDS, "seconds")
    for label in dict.fromkeys(outcome.label for outcome in listed):
        took = sum(outcome.seconds for outcome in listed if outcome.label == label)
        lines.add_row(Text(label), *(f"{counts[label, kind]:,}" for kind in KINDS), f"{took:,.0f}")
    yield lines
    by_reason: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in listed:
        if outcome.kind == "failed":
            by_reason.setdefault((outcome.label, outcome.why[:90]), []).append(outcome)
    for (label, why), same in by_reason.items():
        yield Text(f"\n{label}: {why}\n  {len(same)} times, as {same[0].line}")


def main() -> int:
    """Exit status 0: nothing failed; 1: something did."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    args = arguments()
    outcomes = run(args)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = [asdict(outcome) for outcome in outcomes]
    args.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    show(report(outcomes))
    return 1 if any(outcome.kind == "failed" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
