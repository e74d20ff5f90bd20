"""What the converter writes for the corpus and for random ONNX nodes, kept as check sums: no change goes unseen.

golden_conversions/models.txt has, for each model, the bytes and the sum of the file that comes out, optimised alone and
quantised in three ways, with warnings and refusals among what is summed. streams.txt has the model over new rows alone,
where there is one; onnx.txt has a sum for each kind of node. No line says that a conversion is right, which other tests
do. ``pytest --refresh-golden tests/converter/test_golden_conversions.py`` writes the files anew; the difference shows
which models a change touches.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_files import compare
from needs import SHARED
from onnx_draws import DRAWS, Draw, proto_of
from sweep.tasks import corpus

from twinfer.bench.models.source import load
from twinfer.converter.convert import convert
from twinfer.converter.stream.convert import stream
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.write.tflite import write

GOLDEN = Path(__file__).parent / "golden_conversions"

#: Models of more take too long.
MOST = {"most_bytes": 1 << 17, "most_macs": 400_000}

#: What each float model is quantised by, in turn.
WAYS: tuple[dict[str, Any], ...] = (
    {"quantize": "int8"},
    {"quantize": "int16x8"},
    {"quantize": "int4", "adaptive_rounding": True},
    {"quantize": "int8", "method": "mse", "inference_type": "FLOAT32", "bias_correction": True},
    {"quantize": "int8", "method": "percentile-99", "prune": 0.5, "cluster": 4, "compensate": True},
    {"quantize": "int8", "method": "moving-average", "equalize": True, "store_plan": True},
    {"quantize": "int16x8", "method": "entropy", "prune": 0.3, "prune_block": "1x2"},
)


def _converted(source: Any, **how: Any) -> str:
    """The bytes and the sum of what is written, or "refused"; the sum has what is said, too."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            file = write(convert(source, **how))
        except TwinferError as error:
            return f"refused:{zlib.crc32(str(error).replace(str(SHARED), '').encode()):08x}"
    told = "".join(str(each.message) for each in said).replace(str(SHARED), "")
    return f"{len(file)}:{zlib.crc32(told.encode(), zlib.crc32(file)):08x}"


def _samples(graph: Graph) -> dict[str, Any]:
    drawn = [random_inputs(graph, seed) for seed in range(3)]
    return {t.name: np.stack(values) for t, *values in zip(graph.inputs, *drawn, strict=True)}


def _models() -> Iterator[str]:
    for i, model in enumerate(corpus()):
        if not model.within(**MOST):
            continue
        try:
            graph = load(model.name).graph
            samples = _samples(graph)
        except TwinferError:
            continue
        told = [_converted(graph)]
        if any(t.type == "FLOAT32" for t in graph.inputs):
            told += [_converted(graph, calibration=samples, **WAYS[(i + turn) % len(WAYS)]) for turn in range(3)]
        yield f"{Path(model.name).stem}: {' '.join(told)}"


def _streams() -> Iterator[str]:
    for i, model in enumerate(corpus()):
        if not model.within(**MOST):
            continue
        try:
            graph = load(model.name).graph
            rank = len(graph.inputs[0].shape) if graph.inputs else 0
            streamed = stream(graph, axis=(None, 1 % rank if rank else None)[i % 2], hop=(None, None, 2)[i % 3])
        except TwinferError as error:
            yield f"{Path(model.name).stem}: refused:{zlib.crc32(str(error).encode()):08x}"
            continue
        told = f"{streamed.axis} {streamed.rows} {streamed.hop} {[str(why) for why in streamed.whole.values()]}"
        yield f"{Path(model.name).stem}: {told} {zlib.crc32(write(streamed.graph)):08x}"


def _onnx() -> Iterator[str]:
    for make in DRAWS:
        told = [_converted(proto_of(make(Draw(seed)))) for seed in range(1000, 1000 + min(DRAWS[make], 25))]
        yield f"{make.__name__}: {len(told)} {zlib.crc32(' '.join(told).encode()):08x}"


@pytest.mark.usefixtures("corpus")
def test_conversions_of_models_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "models.txt", _models(), request)


@pytest.mark.usefixtures("corpus")
def test_streams_of_models_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "streams.txt", _streams(), request)


def test_conversions_of_onnx_nodes_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "onnx.txt", _onnx(), request)
