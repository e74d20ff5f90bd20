"""What int8 costs in accuracy on real data, by our converter and by its peers.

``make accuracy``, or ``python -m twinfer.bench.lab.accuracy [SET ...] [--json FILE]``. Cross-validation: every sample
is judged once, by a network that was not trained on it and was calibrated on training samples alone. The networks are
stored (networks.py). Exit status 1 if a limit is missed, 2 if something fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.text import Text

from twinfer.bench.lab.compression_report import networks
from twinfer.bench.lab.datasets import DATASETS, Dataset
from twinfer.bench.lab.engines import BASELINE, ENGINES, OURS, PEERS, Engine
from twinfer.bench.lab.networks import NETWORKS, SEED, network
from twinfer.bench.measure import report
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.limits import Verdict
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array
from twinfer.runtime.read.files import write_text

#: Number of training samples that ranges are calibrated on.
CALIBRATION = 200


@dataclass
class Tally:
    """The results of one engine on one network, summed over the folds. ``changed``: answers that differ from the float
    network's. ``signal`` and ``noise``: sums of squares of the float logits and of the differences to them. ``folds``:
    the accuracy of each fold in percent."""

    samples: int = 0
    correct: int = 0
    changed: int = 0
    signal: float = 0.0
    noise: float = 0.0
    folds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def add(self, logits: Array, wanted: Array, labels: Array) -> None:
        """Adds the logits [n, classes] of the engine and of the float network, with the true classes [n]."""
        answers = logits.argmax(1)
        correct = int((answers == labels).sum())
        self.samples += len(labels)
        self.correct += correct
        self.folds.append(100 * correct / len(labels))
        self.changed += int((answers != wanted.argmax(1)).sum())
        self.signal += float(np.square(wanted, dtype=np.float64).sum())
        self.noise += float(np.square(logits - wanted, dtype=np.float64).sum())

    def row(self, baseline: Tally) -> Row:
        """Accuracy and loss in points (percent of the samples), signal-to-noise ratio of the logits in dB. Seconds are
        the median of the folds, bytes the mean."""
        return {
            "samples": self.samples,
            "correct": self.correct,
            "accuracy": 100 * self.correct / self.samples,
            "folds": self.folds,
            "loss_points": 100 * (baseline.correct - self.correct) / self.samples,
            "changed": self.changed,
            "snr_db": 10 * float(np.log10(self.signal / self.noise)) if self.noise else None,
            "convert_s": median(self.seconds),
            "bytes": round(mean(self.sizes)),
        }


def measure(data: Dataset, model: str, engines: Mapping[str, Engine]) -> dict[str, Tally]:
    """Converts the network of every fold by every engine and runs it on the samples held out.

    ``engines`` holds BASELINE. TwinferError if one of them fails.
    """
    tallies = {name: Tally() for name in engines}
    rng = np.random.default_rng(SEED)
    for fold, (train, held) in enumerate(data.folds(SEED)):
        source = network(data, model, fold)
        samples = data.x[rng.choice(train, CALIBRATION, replace=False)]
        wanted = engines[BASELINE].run(source, data.x[held])
        for name, engine in engines.items():
            content, seconds = engine.timed(source, samples)
            tallies[name].add(engine.run(content, data.x[held]), wanted, data.y[held])
            tallies[name].seconds.append(seconds)
            tallies[name].sizes.append(len(content))
    return tallies


def rows(sets: Sequence[str], engines: Mapping[str, Engine]) -> Iterator[Row]:
    """One row per set, model and engine."""
    for name in sets:
        data = DATASETS[name]()
        for model in NETWORKS[name]:
            tallies = measure(data, model, engines)
            for engine, tally in tallies.items():
                yield {"set": name, "model": model, "engine": engine, **tally.row(tallies[BASELINE])}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    about = "What int8 costs in accuracy on real data, by our converter and by its peers."
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.lab.accuracy", description=about)
    known = f"of {', '.join(DATASETS)}; all of them by default"
    parser.add_argument("sets", nargs="*", choices=[[], *DATASETS], metavar="SET", help=known)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and the limits to this file, too")
    arguments = parser.parse_args(argv)
    engines = {name: engine for name, engine in ENGINES.items() if engine.installed}
    progress = Console(stderr=True, markup=False)
    missing = [name for name in ENGINES if name not in engines]
    for name in missing:
        progress.print(
            f"{name} is left out, it is not installed: pip install 'twinfer[accuracy]'", style="yellow", soft_wrap=True
        )
    if BASELINE in missing:
        return 2
    try:
        with progress.status("converting and running the networks"):
            table_rows = list(rows(arguments.sets or list(DATASETS), engines))
        console = Console()
        for each in tables(table_rows):
            console.print(each)
        if arguments.json is not None:
            write_text(arguments.json, json.dumps(document(table_rows), indent=2) + "\n")
    except TwinferError as error:
        progress.print(f"accuracy: {error}", style="red", soft_wrap=True)
        return 2
    return int(not all(v.good for v in verdicts(table_rows)))


# -- tables and limits -------------------------------------------------------------------------------------------------


#: Most points of accuracy that int8 may cost.
POINTS = 0.5

#: Rises when a key of the JSON goes or changes its meaning. New keys do not count.
SCHEMA = 1

_COLUMNS = ("<", "accuracy\n%", "loss\npoints", "answers\nchanged", "logits'\nSNR dB", "convert\ns", "file\nbytes")


@dataclass(frozen=True)
class Standing(Verdict):
    """The loss of one of our engines on one network, with a limit and its description."""

    what: str = ""


def verdicts(rows: Sequence[Row]) -> list[Standing]:
    """Every limit: at most 0.5 points, and no more loss than any peer on the same network, but for chance.

    A gain by rounding is luck and counts as no loss, for us and for the peers. So is whether an answer that rounding
    changes becomes right or wrong: of n answers that two engines change the numbers of right ones differ by the root of
    n (a standard error), and so much more may be lost.
    """
    standing = []
    for name, group in networks(rows).items():
        loss = {row["engine"]: max(0.0, row["loss_points"]) for row in group}
        changed = {row["engine"]: row["changed"] for row in group}
        for own in OURS:
            standing.append(Standing(loss[own], POINTS, what=f"{name}: {own} within {POINTS} points"))
            for peer in (each for each in PEERS if each in loss):
                chance = 100 * (changed[own] + changed[peer]) ** 0.5 / group[0]["samples"]
                what = f"{name}: {own} loses no more than {peer}, but for chance"
                standing.append(Standing(loss[own], loss[peer] + chance, what=what))
    return standing


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """The JSON document: machine, versions of the peers, rows, and limits."""
    limits = [{"what": v.what, "loss_points": v.value, "most": v.most, "held": v.good} for v in verdicts(rows)]
    versions = {e.needs[1]: e.version for e in ENGINES.values() if e.needs and e.installed}
    return {"schema": SCHEMA, "machine": report.machine(), "peers": versions, "rows": list(rows), "limits": limits}


def tables(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """The table, then the number of limits that are held, and the missed ones."""
    shown = report.table("Accuracy on held-out data, ±: standard deviation of the folds", *_COLUMNS, gap=1)
    for name, group in networks(rows).items():
        shown.add_row(Text(f"{name}, {group[0]['samples']:,} samples", style="bold"))
        for row in group:
            shown.add_row(*_cells(row))
    yield shown
    standing = verdicts(rows)
    missed = [v for v in standing if not v.good]
    yield Text(f"{len(standing) - len(missed)} of {len(standing)} limits are held", "red" if missed else "green")
    yield from (Text(f"missed: {v.what}: {v.value:.2f}, not {v.most:.2f}", style="red") for v in missed)


def _cells(row: Row) -> list[str | Text]:
    own = row["engine"] in OURS
    snr = "-" if row["snr_db"] is None or row["snr_db"] > 100 else f"{row['snr_db']:.1f}"
    loss = f"{row['loss_points']:+.2f}"
    return [
        Text(f"  {row['engine']}", style="bold" if own else ""),
        report.spread(row["accuracy"], row["folds"]),
        "-" if row["engine"] == BASELINE else Text(loss, "green" if row["loss_points"] <= POINTS else "red"),
        f"{row['changed']:,}",
        snr,
        "-" if row["engine"] == BASELINE else f"{row['convert_s']:.2f}",
        f"{row['bytes']:,}",
    ]


if __name__ == "__main__":
    sys.exit(main())
