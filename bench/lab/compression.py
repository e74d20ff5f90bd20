"""What pruning and clustering cost in accuracy on real data, and what they save of flash.

``make compression``, or ``python -m twinfer.bench.lab.compression [SET ...] [--folds N] [--json FILE] [--html
FILE]``. Networks and data are those of ``accuracy``: every sample is judged once, by a network that has not seen it.
``--folds`` limits the parts that are held out. Exit status 2 if something fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import onnx
from rich.console import Console

from twinfer.aot.build.targets import find
from twinfer.bench.lab.accuracy import CALIBRATION, Tally
from twinfer.bench.lab.compression_report import compression_html, tables
from twinfer.bench.lab.datasets import DATASETS, FOLDS, Dataset
from twinfer.bench.lab.engines import INPUT, run_twinfer
from twinfer.bench.lab.networks import NETWORKS, SEED, network
from twinfer.bench.measure import report
from twinfer.bench.measure.compare import Row
from twinfer.bench.page.page import need_library
from twinfer.converter.compress.layers import layers_of
from twinfer.converter.convert import convert
from twinfer.runtime.errors import ModelWarning, TwinferError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Coding, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.files import write_text
from twinfer.runtime.write.tflite import write

#: Rises when a key of the JSON goes or changes its meaning. New keys do not count.
SCHEMA = 1

#: The board that flash is counted for.
CARD = "cortex-m4"

INT8 = {"quantize": "int8"}
FITTED = {**INT8, "compensate": True}

#: Shares of the weights that are pruned. Smaller shares save nothing: a table of values is smaller.
SHARES = (0.5, 0.7, 0.8, 0.9)

#: Loss is the difference to this setting.
BASELINE = "float"


@dataclass(frozen=True)
class Setting:
    """A way to convert: arguments of ``convert`` beside the calibration data. ``family``: the kind of setting."""

    family: str
    name: str
    how: Mapping[str, Any] = field(default_factory=dict)

    def graph(self, model: onnx.ModelProto, samples: Array) -> Graph:
        given: dict[str, Any] = {**self.how, "calibration": {INPUT: samples}} if self.how else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)  # poor outputs are what is measured
            return convert(model, **given)


def _settings() -> Iterator[Setting]:
    yield Setting(BASELINE, BASELINE)
    yield Setting("int8", "int8", INT8)
    yield Setting("int4", "int4", {"quantize": "int4"})
    yield Setting("int4", "int4, adaptive rounding", {"quantize": "int4", "adaptive_rounding": True})
    for bits in range(2, 8):
        yield Setting("clustered", f"cluster {bits}", {**INT8, "cluster": bits})
    for bits in range(2, 6):
        yield Setting("clustered, fitted", f"cluster {bits}, fitted", {**FITTED, "cluster": bits})
    for share in SHARES:
        name = f"prune {share:.0%}"
        yield Setting("pruned", f"{name} per layer", {**INT8, "prune": share, "prune_scope": "layer"})
        yield Setting("pruned", name, {**INT8, "prune": share})
        yield Setting("pruned, fitted", f"{name}, fitted", {**FITTED, "prune": share})
    for block in ("1x4", "4x1", "2:4"):
        how = {**FITTED, "prune": 0.5, "prune_block": block}
        yield Setting("blocks, fitted", f"prune 50%, {block}, fitted", how)
    for share, bits in product(SHARES, (3, 4)):
        how = {**FITTED, "prune": share, "cluster": bits}
        yield Setting("both, fitted", f"prune {share:.0%}, cluster {bits}, fitted", how)


#: In the order of the table.
SETTINGS = tuple(_settings())


def flash(graph: Graph, coding: Coding) -> int:
    """Bytes of flash of the constants that are emitted for ``CARD``, with the decoders and their calls."""
    plan = make_plan(graph, find(CARD).target, Options(weights=coding))
    return plan.constant_bytes + plan.decoding_bytes


@dataclass
class Found:
    """One setting on one network, over the folds."""

    setting: Setting
    tally: Tally = field(default_factory=Tally)
    coded: list[int] = field(default_factory=list)
    zeros: list[float] = field(default_factory=list)

    def add(self, graph: Graph, logits: Array, wanted: Array, labels: Array) -> None:
        self.tally.add(logits, wanted, labels)
        self.tally.sizes.append(flash(graph, "file"))
        self.coded.append(flash(graph, "auto"))
        weights = np.concatenate([w.stored().reshape(-1) for w in layers_of(graph)])
        self.zeros.append(float(np.mean(weights == 0)))

    def row(self, baseline: Tally) -> Row:
        """A row as in ``accuracy``. ``coded``: bytes of flash, mean of the folds; ``folds_coded``: of each fold."""
        own = {"family": self.setting.family, "setting": self.setting.name, "coded": round(mean(self.coded))}
        return {**own, "folds_coded": self.coded, **self.tally.row(baseline), "zeros": mean(self.zeros)}


def measure(
    data: Dataset,
    model: str,
    settings: Sequence[Setting],
    folds: int,
    told: Callable[[str], None] = lambda what: None,
) -> list[Row]:
    """One row per setting, the baseline first; calls ``told`` with what is being done. Errors as in ``convert``."""
    candidates = [Found(setting) for setting in settings]
    rng = np.random.default_rng(SEED)
    for fold, (train, held) in enumerate(islice(data.folds(SEED), folds)):
        source = onnx.load_model_from_string(network(data, model, fold))
        samples = data.x[rng.choice(train, CALIBRATION, replace=False)]
        wanted = run_twinfer(write(candidates[0].setting.graph(source, samples)), data.x[held])
        for number, each in enumerate(candidates, 1):
            told(f"{data.name} {model}: {each.setting.name} ({number} of {len(candidates)})")
            start = time.perf_counter()
            graph = each.setting.graph(source, samples)
            each.tally.seconds.append(time.perf_counter() - start)
            each.add(graph, run_twinfer(write(graph), data.x[held]), wanted, data.y[held])
    return [each.row(candidates[0].tally) for each in candidates]


def rows(sets: Sequence[str], folds: int, told: Callable[[str], None] = lambda what: None) -> list[Row]:
    """The rows of every set, network and setting; calls ``told`` with what is being done."""
    measured: list[Row] = []
    for name in sets:
        data = DATASETS[name]()
        for model in NETWORKS[name]:
            measured += [{"set": name, "model": model, **row} for row in measure(data, model, SETTINGS, folds, told)]
    return measured


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    about = "What pruning and clustering cost in accuracy on real data, and what they save of flash."
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.lab.compression", description=about)
    parser.add_argument("sets", nargs="*", choices=[[], *DATASETS], metavar="SET", help=f"of {', '.join(DATASETS)}")
    about = f"of the {FOLDS} parts that accuracy holds out one by one: how many are measured here (default: all)"
    parser.add_argument("--folds", type=int, choices=range(1, FOLDS + 1), default=FOLDS, help=about)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to this file, too")
    parser.add_argument("--html", type=Path, metavar="FILE", help="draw accuracy over flash in this file")
    arguments = parser.parse_args(argv)
    errors = Console(stderr=True, markup=False)
    try:
        if arguments.html is not None:
            need_library()
        with errors.status("compressing the networks") as status:
            measured = rows(arguments.sets or list(DATASETS), arguments.folds, status.update)
        console = Console()
        for each in tables(measured, arguments.folds):
            console.print(each)
        if arguments.json is not None:
            document = {"schema": SCHEMA, "machine": report.machine(), "folds": arguments.folds, "rows": measured}
            write_text(arguments.json, json.dumps(document, indent=2) + "\n")
        if arguments.html is not None:
            write_text(arguments.html, compression_html(measured, arguments.folds))
    except TwinferError as error:
        errors.print(f"compression: {error}", style="red", soft_wrap=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
