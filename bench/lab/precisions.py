"""What ``convert --quantize auto`` chooses on models that others made and on labelled data, beside int8 and int16x8.

``python -m twinfer.bench.lab.precisions [-k WORD] [--again] [--json FILE]``. Models and samples are those of
``accuracy_models``: a figure is the signal-to-noise ratio of the worst output on samples that nothing saw before. Of
labelled data it is the share of right answers, on samples held out, over all folds (``accuracy``). Instructions, flash
and RAM are estimates for a Cortex-M4.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from twinfer.bench.lab.accuracy_models import (
    CALIBRATION,
    MOST_DB,
    Model,
    Outputs,
    Samples,
    apart,
    keep,
    kept,
    models,
    prepared,
    ratios,
    run_graph,
)
from twinfer.bench.lab.datasets import DATASETS
from twinfer.bench.lab.networks import NETWORKS, SEED, network
from twinfer.bench.measure.compare import Row
from twinfer.converter.convert import conversion, convert
from twinfer.converter.quantize.samples import LABELS
from twinfer.converter.search.auto import Chosen
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Graph

PRECISIONS = ("int8", "int16x8", "auto")

#: Samples with labels that are given to choose by.
LABELLED = 600


@dataclass(frozen=True)
class Own(Model):
    """A model with data of its own: ``facts["data"]`` is a .npz with the samples by input."""

    def samples(self, graph: Graph) -> list[dict[str, Array]]:
        with np.load(self.facts["data"]) as data:
            arrays = [data[t.name] for t in graph.inputs]
        return [{t.name: a[i] for t, a in zip(graph.inputs, arrays, strict=True)} for i in range(len(arrays[0]))]


def figures(chosen: Chosen) -> Row:
    """Estimates for what was chosen, for int8 and for float."""
    found = {"auto": chosen.best, **{name: trial for name, trial in chosen.whole.items() if name in ("int8", "float")}}
    return {name: [t.instructions, t.flash, t.ram] for name, t in found.items()}


def of_model(model: Model, wanted: Outputs, samples: Samples) -> Row:
    """A row: dB of the worst output by precision on held-out samples, and what was chosen at which costs."""
    seen, held = list(samples[:CALIBRATION]), samples[CALIBRATION:]
    row: Row = {"model": model.name}
    for precision in PRECISIONS:
        begun = time.process_time()
        try:
            made = conversion(str(model.path), quantize=precision, calibration=seen, **model.how())
            row[precision] = round(min(ratios(wanted, run_graph(made.graph, held)), default=MOST_DB), 1)
        except TwinferError as error:
            row[f"{precision} error"] = str(error)[:200]
            continue
        if made.chosen is not None:
            row |= {"judged": round(made.chosen.best.snr_db, 1), "met": made.chosen.met, "costs": figures(made.chosen)}
            row |= {"chosen": made.chosen.layers, "seconds": round(time.process_time() - begun, 1)}
    return row


def of_labels(name: str, network_name: str) -> Row:
    """A row: right answers on held-out data by precision, in percent, over all folds."""
    data, right, count = DATASETS[name](), Counter[str](), 0
    row: Row = {"model": f"{name}/{network_name}"}
    rng = np.random.default_rng(SEED)
    for fold, (train, held) in enumerate(data.folds(SEED)):
        source = onnx.load_model_from_string(network(data, network_name, fold))
        picked = rng.choice(train, min(LABELLED, len(train)), replace=False)
        plain = convert(source)
        (entry,) = plain.inputs
        rows = [{entry.name: value[None]} for value in data.x[held]]
        count += len(held)
        graphs = {"float": plain}
        for precision in PRECISIONS:
            begun = time.process_time()
            samples = {entry.name: data.x[picked]} | ({LABELS: data.y[picked]} if precision == "auto" else {})
            made = conversion(source, quantize=precision, calibration=samples)
            graphs[precision] = made.graph
            if made.chosen is not None:
                row |= {"costs": figures(made.chosen), "chosen": made.chosen.layers, "met": made.chosen.met}
                row["seconds"] = round(time.process_time() - begun, 1)
        for precision, graph in graphs.items():
            answers = np.array([outputs[0].reshape(-1).argmax() for outputs in run_graph(graph, rows)])
            right[precision] += int((answers == data.y[held]).sum())
    return row | {p: round(100 * right[p] / count, 2) for p in right} | {"labels": count}


def rows(chosen: Sequence[Model], word: str, known: Collection[str]) -> Iterator[Row]:
    """Rows that are not known yet: of models, then of labelled data."""
    for name in DATASETS:
        for each in NETWORKS[name]:
            if word in f"{name}/{each}" and f"{name}/{each}" not in known:
                found = apart(partial(of_labels, name, each))
                yield {"model": f"{name}/{each}", "error": found} if isinstance(found, str) else found
    for model in chosen:
        if word not in model.name or model.name in known:
            continue
        ready = prepared(model)
        row = ready if isinstance(ready, str) else apart(partial(of_model, model, ready[1], ready[0]))
        yield {"model": model.name, "error": row} if isinstance(row, str) else row


def main(argv: Sequence[str] | None = None) -> int:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.lab.precisions", description=about)
    parser.add_argument("-k", default="", metavar="WORD", help="models whose name has this in it")
    parser.add_argument("-v", action="store_true", help="show where a conversion fails")
    parser.add_argument("--again", action="store_true", help="measure known rows anew")
    parser.add_argument("--most", type=int, metavar="BYTES", help="leave larger files out")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("TWINFER_SHARED", "../shared")))
    parser.add_argument("--json", type=Path, metavar="FILE", help="read known rows from this file, and write all to it")
    arguments = parser.parse_args(argv)
    known = kept(arguments.json)
    mel = arguments.shared / "faults" / "t_mel_cnn.onnx"
    own = [Own("mel front end/t_mel_cnn.onnx", mel, {"data": mel.with_suffix(".npz")})] if mel.exists() else []
    chosen = [*models(arguments.shared / "corpus"), *own]
    chosen = sorted(chosen, key=lambda m: m.path.stat().st_size)
    chosen = [m for m in chosen if arguments.most is None or m.path.stat().st_size <= arguments.most]
    keep(
        known, rows(chosen, arguments.k, set() if arguments.again else {row["model"] for row in known}), arguments.json
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
