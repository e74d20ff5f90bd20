"""How good a quantised graph is: each output's ratio, the layers that cost most, divisors that round to 0; and if it is
poor, a warning with what helps."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from twinfer.converter.quantize.affine import real
from twinfer.converter.quantize.compare import OutputReport, Sensitivity, Sums, feed, in_words, sensitivity, worst_first
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.samples import Samples, samples_of
from twinfer.converter.table import row_of
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.options import Options as PlanOptions
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: Outputs with a lower signal-to-noise ratio get a warning: the error is a tenth of the signal.
LEAST_DB = 20.0

#: Samples of an iterator that are kept for judging; runs (layers times samples) to find the worst layers; how many of
#: these are kept, and named in a warning.
KEPT, RUNS, WORST, NAMED = 16, 200, 12, 3


@dataclass(frozen=True)
class Quality:
    """``outputs``: each float output's signal-to-noise ratio to the float graph's, the worst first; ``worst``: the
    layers that cost most if they alone are quantised, the costliest first; ``zeros``: the quantised divisions by what
    is 0 on the samples, where the float graph's is not: how many elements, and the tensor that rounds to 0."""

    outputs: tuple[OutputReport, ...]
    worst: tuple[Sensitivity, ...] = ()
    zeros: Mapping[Node, tuple[int, Tensor]] = field(default_factory=dict)

    @property
    def snr_db(self) -> float:
        return self.outputs[0].snr_db

    def __str__(self) -> str:
        worst = f"; worst layer: {_named(self.worst[0])}" if self.worst else ""
        if len(self.outputs) == 1:
            return f"outputs at {in_words(self.snr_db)} to the float model's on the calibration data{worst}"
        each = ", ".join(f"{output.name!r} {in_words(output.snr_db)}" for output in self.outputs)
        return f"outputs to the float model's on the calibration data, the worst first: {each}{worst}"


def _named(layer: Sensitivity) -> str:
    return f"{layer.name!r} {layer.operator} ({in_words(layer.snr_db)} alone)"


def quality(graph: Graph, quantized: Graph, samples: Samples) -> Quality:
    """What quantising did to the outputs over the samples."""
    judged = _compared(graph, quantized, samples)
    if not judged.outputs:
        return judged
    return replace(judged, worst=sensitivity(graph, quantized, samples, runs=RUNS)[:WORST])


def _compared(graph: Graph, quantized: Graph, samples: Samples) -> Quality:
    """The outputs' ratios, and what was divided by 0."""
    outputs = [i for i, t in enumerate(graph.outputs) if t.type == "FLOAT32" and t.data is None]
    divisions = [node for node in quantized.nodes if node.op == "DIV"]
    floats = Session(make_plan(graph))
    session = Session(make_plan(quantized, options=PlanOptions(preserve_all=bool(divisions))))
    sums, zeros = [Sums() for _ in outputs], dict.fromkeys(divisions, 0)
    where: dict[Node, Tensor] = {}
    for sample in samples_of(graph, samples):
        feed(floats, sample)
        feed(session, sample)
        for i, total in zip(outputs, sums, strict=True):
            wanted, got = floats.plan.graph.outputs[i], session.plan.graph.outputs[i]
            total.add(floats.view(wanted), real(session.view(got), got))
        for node in divisions:
            count = int(np.broadcast_to(_is_zero(session, node.input(1)), node.output.shape).sum())
            zeros[node] += count
            if count and node not in where:
                where[node] = _first_zero(session, quantized, node.input(1))
    ratios = [(graph.outputs[i].name, total.snr_db) for i, total in zip(outputs, sums, strict=True)]
    return Quality(worst_first(ratios), (), {node: (zeros[node], tensor) for node, tensor in where.items()})


def _is_zero(session: Session, tensor: Tensor) -> np.ndarray:
    value = np.asarray(session.view(tensor) if tensor.data is None else tensor.data)
    return np.asarray(real(value, tensor) == 0)


def _first_zero(session: Session, graph: Graph, tensor: Tensor) -> Tensor:
    """The first tensor, of those before this one whose zeros stay zeros, that has some."""
    maker = next((node for node in graph.nodes if tensor in node.outputs), None)
    if maker is None or not row_of(maker).zero_stays or not _is_zero(session, maker.input(0)).any():
        return tensor
    return _first_zero(session, graph, maker.input(0))


def warn(judged: Quality, mode: str, advice: str, seen: Calibration) -> None:
    """Warns of divisions by 0 and of outputs below ``LEAST_DB``, with ``advice``."""
    lows = {t.name: max(o.low, -o.high, 0.0) for t, o in seen.items() if o.count}
    for node, (count, tensor) in judged.zeros.items():
        known = f" (calibration saw {lows[tensor.name]:.3g} or more)" if lows.get(tensor.name) else ""
        step = "" if tensor.quant is None else f", as it does below {tensor.scale / 2:.3g}{known}"
        undefined = "LiteRT aborts then, other runtimes give an undefined result"
        gives = "it gives infinity or NaN then" if node.output.type == "FLOAT32" else undefined
        what = f"{node} divides by 0 in {count} elements of the calibration data, where {tensor} rounds to 0{step}"
        warnings.warn(f"{what}; {gives}: {advice}", ModelWarning, stacklevel=5)
    poor = [output for output in judged.outputs if output.snr_db < LEAST_DB]
    if not poor:
        return
    which = "outputs are" if len(judged.outputs) == 1 else f"output {poor[0].name!r} is"
    more = f" ({len(poor)} of {len(judged.outputs)} outputs are)" if len(poor) > 1 else ""
    ratio = f"{in_words(poor[0].snr_db)} to the float model's, below {LEAST_DB:.0f} dB{more}"
    layers = ", ".join(map(_named, judged.worst[:NAMED])) or "the layers that --report shows"
    what = f"the {mode} model's {which} at {ratio}: {advice}"
    warnings.warn(f"{what}; the worst layers: {layers}", ModelWarning, stacklevel=5)


def is_poor(judged: Quality) -> bool:
    return bool(judged.zeros) or any(output.snr_db < LEAST_DB for output in judged.outputs)


def keep_samples(samples: Samples, keep: list[Any]) -> Samples:
    """The samples. An iterator can be read only once: its first samples are also put into ``keep``."""
    if not isinstance(samples, Iterator):
        return samples
    keep += islice(samples, KEPT)
    return chain(tuple(keep), samples)
