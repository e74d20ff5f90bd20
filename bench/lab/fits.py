"""What ``twinfer fit`` finds for nine models on five boards: ``python -m twinfer.bench.lab.fits [--json FILE]``.

Models of twinfer's own get random inputs, which have no labels: every output has to keep 25 dB. Those of
``../shared/faults`` get the samples that lie beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from twinfer.aot.build.catalogue import board
from twinfer.bench.fit.fit import Fitted, fit
from twinfer.bench.measure.compare import Row
from twinfer.bench.models.source import load
from twinfer.converter.optimise import optimise
from twinfer.converter.source import read_source
from twinfer.runtime.read.files import write_text

BOARDS = ("nucleo-l053r8", "pico", "nucleo-f103rb", "nucleo-f446re", "nucleo-h743zi")

#: Built-in models, and names of files in ../shared/faults.
OWN = ("kws_float32", "vww_float32", "ic_float32", "ad01_float32", "tcn_float32", "digits_float32")
OTHERS = ("t_mel_cnn", "acc_gru", "t_lstm_forecast")

#: Random samples of a model.
SAMPLES = 24


def models() -> Iterator[tuple[str, Any, Any]]:
    """Name, source and samples."""
    rng = np.random.default_rng(1)
    for name in OWN:
        graph = load(name).graph
        yield name, graph, {t.name: rng.normal(size=(SAMPLES, *t.shape[1:])).astype(np.float32) for t in graph.inputs}
    for name in OTHERS:
        folder = Path(os.environ.get("TWINFER_SHARED", "../shared")) / "faults"
        if not (folder / f"{name}.onnx").is_file():
            continue
        graph, samples = optimise(read_source(folder / f"{name}.onnx")), folder / f"{name}.npz"
        drawn = {t.name: rng.normal(size=(SAMPLES, *t.shape[1:])).astype(np.float32) for t in graph.inputs}
        yield name, graph, samples if samples.is_file() else drawn


def row(model: str, name: str, found: Fitted) -> Row:
    """The firmware that was found, or the nearest and what is short."""
    best, need = found.best, found.best.match.need
    figures = {"ms": best.match.estimate.ms, "flash": need.flash, "ram": need.ram, "snr_db": best.trial.snr_db}
    about = {"setting": str(best.trial.setting), "options": best.match.words, "short": best.short}
    return {"model": model, "board": name, "fits": found.fits, **figures, **about}


def table(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each model, a column for each board."""
    cells = {(each["model"], each["board"]): _cell(each) for each in rows}
    lines = [["Fitted: ≈ ms, flash, RAM", *BOARDS]]
    for model in dict.fromkeys(each["model"] for each in rows):
        lines.append([model, *(cells[model, name] for name in BOARDS)])
    return lines


def _cell(each: Row) -> str:
    if not each["fits"]:
        return str(each["short"])
    kind: str = "mixed" if " in " in each["setting"] else each["setting"].partition(",")[0]
    return f"{each['ms']:,.1f}, {each['flash'] / 1024:.0f} K, {each['ram'] / 1024:.1f} K ({kind})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE, too")
    arguments = parser.parse_args()
    rows = list[Row]()
    every = list(models())
    for model, graph, samples in track(every, "fitting", console=Console(stderr=True)):
        rows += (row(model, name, fit(graph, board(name), samples, name=model)) for name in BOARDS)
    if arguments.json:
        write_text(arguments.json, json.dumps({"rows": rows}, indent=1) + "\n")
    for line in table(rows):
        sys.stdout.write(" | ".join(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
