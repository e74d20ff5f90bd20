"""How good a quantised graph is: one number, the layers that cost most, and a warning if it is poor."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from twinfer.converter.quantize.affine import real
from twinfer.converter.quantize.samples import Samples, samples_of
from twinfer.converter.quantize.sensitivity import sensitivity
from twinfer.converter.report import Sensitivity, Sums, feed, in_words
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: Outputs with a lower signal-to-noise ratio get a warning: the error is a tenth of the signal.
LEAST_DB = 20.0

#: Samples of an iterator that are kept for judging; runs (layers times samples) to find the worst layers; how many of
#: these are named.
KEPT, RUNS, NAMED = 16, 200, 3


@dataclass(frozen=True)
class Quality:
    """``snr_db``: signal-to-noise ratio of all float outputs to the float graph's; ``worst``: the layers that cost most
    if they alone are quantised, the costliest first."""

    snr_db: float
    worst: tuple[Sensitivity, ...]

    def __str__(self) -> str:
        worst = f"; worst layer: {_named(self.worst[0])}" if self.worst else ""
        return f"outputs at {in_words(self.snr_db)} to the float model's on the calibration data{worst}"


def _named(layer: Sensitivity) -> str:
    return f"{layer.name!r} {layer.operator} ({in_words(layer.snr_db)} alone)"


def quality(graph: Graph, quantized: Graph, samples: Samples) -> Quality | None:
    """What quantising did to the outputs over the samples; None for a graph without float outputs."""
    outputs = [i for i, t in enumerate(graph.outputs) if t.type == "FLOAT32" and t.data is None]
    if not outputs:
        return None
    sums, sessions = Sums(), [Session(make_plan(g)) for g in (graph, quantized)]
    for sample in samples_of(graph, samples):
        for session in sessions:
            feed(session, sample)
        for i in outputs:
            wanted, got = ((s.plan.graph.outputs[i], s.view(s.plan.graph.outputs[i])) for s in sessions)
            sums.add(wanted[1], real(got[1], got[0]))
    return Quality(sums.snr_db, sensitivity(graph, quantized, samples, runs=RUNS)[:NAMED])


def warn_if_poor(judged: Quality, mode: str) -> None:
    """Warns of outputs below ``LEAST_DB`` and says what may help."""
    if judged.snr_db >= LEAST_DB:
        return
    others = "int8 or int16x8" if mode == "int4" else "int16x8"
    advice = f"quantise to {others}, or by a recipe raise these layers to it or keep them float"
    if mode == "int16x8":
        advice = "keep these layers float by a recipe"
    layers = ", ".join(map(_named, judged.worst)) or "the layers that --report shows"
    warnings.warn(
        f"the {mode} model's outputs are at {in_words(judged.snr_db)} to the float model's, below {LEAST_DB:.0f} dB: "
        f"{advice}: {layers}",
        ModelWarning,
        stacklevel=5,
    )


def kept(samples: Samples, keep: list[Any]) -> Samples:
    """The samples. An iterator can be read only once: its first samples are also put into ``keep``."""
    if not isinstance(samples, Iterator):
        return samples
    keep += islice(samples, KEPT)
    return _both(tuple(keep), samples)


def _both(first: tuple[Any, ...], rest: Iterator[Any]) -> Iterator[Any]:
    yield from first
    yield from rest
