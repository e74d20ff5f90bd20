"""What ``twinfer fit`` finds for ten models on five boards: ``python -m twinfer.bench.lab.fits [MODEL ...]``.

Every output has to keep 25 dB. Models get random inputs, but for those of ``../shared/faults`` beside which samples
lie.
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
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.read.files import write_text

BOARDS = ("nucleo-l053r8", "pico", "nucleo-f103rb", "nucleo-f446re", "nucleo-h743zi")

#: Built-in models, and files in ../shared.
OWN = ("kws_float32", "vww_float32", "ic_float32", "ad01_float32", "tcn_float32", "digits_float32")
OTHERS = (
    "faults/t_mel_cnn.onnx",
    "faults/acc_gru.onnx",
    "faults/t_lstm_forecast.onnx",
    "corpus/models/mltk_autoencoder_example_float32.tflite",
)

#: Random samples of a model.
SAMPLES = 24


def models() -> Iterator[tuple[str, Any, Any]]:
    """Name, source and samples."""
    rng = np.random.default_rng(1)
    for name in OWN:
        graph = load(name).graph
        yield name, graph, _drawn(graph, rng)
    for file in OTHERS:
        path = Path(os.environ.get("TWINFER_SHARED", "../shared")) / file
        if path.is_file():
            graph, samples = optimise(read_source(path)), path.with_suffix(".npz")
            name = path.stem.removesuffix("_example_float32")
            yield name, graph, samples if samples.is_file() else _drawn(graph, rng)


def _drawn(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    return {t.name: rng.normal(size=(SAMPLES, *t.shape[1:])).astype(np.float32) for t in graph.inputs}


def row(model: str, name: str, found: Fitted) -> Row:
    """The firmware that was found, or the nearest and what is short."""
    best, need = found.best, found.best.match.need
    figures = {"ms": best.match.estimate.ms, "flash": need.flash, "ram": need.ram, "snr_db": best.trial.snr_db}
    fit = best.match.fit
    about = {"setting": str(best.trial.setting), "options": best.options, "advice": list(found.advice)}
    short = {"ram_short": fit.ram_short, "flash_short": fit.flash_short}
    return {"model": model, "board": name, "fits": found.fits, **figures, **about, **short}


def table(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each model, a column for each board."""
    cells = {(each["model"], each["board"]): _cell(each) for each in rows}
    lines = [["Fitted: ≈ ms, flash, RAM", *BOARDS]]
    for model in dict.fromkeys(each["model"] for each in rows):
        lines.append([model, *(cells[model, name] for name in BOARDS)])
    return lines


_SHORT = {"ram_short": "RAM", "flash_short": "flash"}


def _cell(each: Row) -> str:
    if not each["fits"]:
        lacks = [f"{each[what] / 1024:,.0f} K of {word}" for what, word in _SHORT.items() if each[what]]
        return f"short of {', '.join(lacks)}"
    kind: str = "mixed" if " in " in each["setting"] else each["setting"].partition(",")[0]
    return f"{each['ms']:,.1f}, {each['flash'] / 1024:.0f} K, {each['ram'] / 1024:.1f} K ({kind})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="some of the models (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE, too")
    arguments = parser.parse_args()
    rows = list[Row]()
    every = [each for each in models() if not arguments.models or each[0] in arguments.models]
    for model, graph, samples in track(every, "fitting", console=Console(stderr=True)):
        rows += (row(model, name, fit(graph, board(name), samples, name=model)) for name in BOARDS)
    if arguments.json:
        write_text(arguments.json, json.dumps({"rows": rows}, indent=1) + "\n")
    for line in table(rows):
        sys.stdout.write(" | ".join(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
