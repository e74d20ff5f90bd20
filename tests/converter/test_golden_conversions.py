"""What the converter writes for the corpus and for random ONNX nodes, kept as check sums: no change goes unseen.

golden_conversions/models.txt has, for each model, the bytes and the sum of the file that comes out, optimised alone and
quantised in three ways, with warnings and refusals among what is summed. streams.txt has the model over new rows alone,
where there is one; onnx.txt has a sum for each kind of node, and one for such nodes with a thing changed; pairs.txt and
chains.txt have sums for TFLite's operators, two and more behind each other. No line says that a conversion is right,
which other tests do. A file is made in parts, by the names in front of its lines; some are deep. ``pytest -m ""
--refresh-golden tests/converter/test_golden_conversions.py`` writes the files anew; the difference shows which models a
change touches.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from chains import chain
from needs import SHARED, deep_but
from onnx_draws import DRAWS, Draw, Drawn, proto_of
from pairs import pairs
from sweep.tasks import corpus

from twinfer.bench.models.source import load
from twinfer.converter.convert import convert
from twinfer.converter.stream.convert import stream
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph
from twinfer.runtime.registry import operators
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.write.tflite import write

GOLDEN = Path(__file__).parent / "golden_conversions"

#: Parts of a file. Of what takes longest every run makes some.
PARTS = 8
EACH = pytest.mark.parametrize("part", range(PARTS))
SOME = pytest.mark.parametrize("part", deep_but(range(PARTS), 0, 5))
FEW = pytest.mark.parametrize("part", deep_but(range(PARTS), 0))


def _in(part: int, name: object) -> bool:
    return zlib.crc32(str(name).encode()) % PARTS == part


def _as_kept(name: str, told: Iterator[str], part: int, request: pytest.FixtureRequest) -> None:
    """Fails unless the part of the file has these lines. With --refresh-golden it gets them."""
    file, lines = GOLDEN / name, {line.partition(": ")[0]: line for line in told}
    kept = {line.partition(": ")[0]: line for line in file.read_text("utf-8").splitlines()}
    others = {key: line for key, line in kept.items() if not _in(part, key)}
    if request.config.getoption("refresh_golden"):
        kept = {key: line for key, line in kept.items() if key in others or key in lines} | lines
        file.write_text("".join(f"{line}\n" for line in kept.values()), "utf-8")
    changed = [line for key, line in lines.items() if kept.get(key) != line]
    assert {**others, **lines} == kept, f"{len(changed)} lines of {name} changed; if it is meant: --refresh-golden"


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


def _models(part: int) -> Iterator[str]:
    for i, model in enumerate(corpus()):
        if not model.within(**MOST) or not _in(part, Path(model.name).stem):
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


def _streamed(graph: Graph, turn: int) -> str:
    """The model over new rows alone, and what is computed anew for each; the turn decides along which axis."""
    rank = len(graph.inputs[0].shape) if graph.inputs else 0
    try:
        streamed = stream(graph, axis=(None, 1 % rank if rank else None)[turn % 2], hop=(None, None, 2)[turn % 3])
    except TwinferError as error:
        return f"refused:{zlib.crc32(str(error).encode()):08x}"
    told = f"{streamed.axis} {streamed.rows} {streamed.hop} {[str(why) for why in streamed.whole.values()]}"
    return f"{told} {zlib.crc32(write(streamed.graph)):08x}"


def _streams(part: int) -> Iterator[str]:
    for i, model in enumerate(corpus()):
        if not model.within(**MOST) or not _in(part, Path(model.name).stem):
            continue
        try:
            graph = load(model.name).graph
        except TwinferError as error:
            yield f"{Path(model.name).stem}: refused:{zlib.crc32(str(error).encode()):08x}"
            continue
        yield f"{Path(model.name).stem}: {_streamed(graph, i)}"


def _onnx(part: int) -> Iterator[str]:
    for make in (make for make in DRAWS if _in(part, make.__name__)):
        drawn = [make(Draw(seed)) for seed in range(1000, 1000 + min(DRAWS[make], 25))]
        told = [_converted(proto_of(each)) for each in drawn]
        d = Draw(7)
        other = [_of_node(_other(d, each)) for each in drawn * 2]
        sums = [zlib.crc32(" ".join(each).encode()) for each in (told, other)]
        yield f"{make.__name__}: {len(told)} {sums[0]:08x} {len(other)} {sums[1]:08x}"


def _of_node(drawn: Drawn) -> str:
    try:
        return _converted(proto_of(drawn))
    except onnx.shape_inference.InferenceError:
        return "no model"


def _other(d: Draw, drawn: Drawn) -> Drawn:
    """The node with an attribute, a shape, a type, the opset, or what is known when converting changed."""
    tensors = {**drawn.inputs, **drawn.constants}
    key = d.pick(*tensors)
    what = d.whole(0, 9)
    if what == 0:
        return replace(drawn, opset=d.pick(7, 9, 10, 11, 12, 13, 18, 20, 21))
    if what == 1 and drawn.constants:
        return replace(drawn, inputs=tensors, constants={}, order=drawn.order or tuple(tensors))
    if what == 2 and len(tensors) > 1:
        return replace(drawn, order=(drawn.order or tuple(tensors))[:-1])
    if what < 5 or not drawn.attributes:
        old = tensors[key]
        with np.errstate(all="ignore"):
            cast = old.astype(d.pick(np.float16, np.float64, np.int8, np.uint8, np.int32, np.bool_))
        new = d.pick(old[None], cast, old.T)
        if old.dtype.kind in "iu" and old.size and d.chance():
            new = old + old.dtype.type(1)
        part = "inputs" if key in drawn.inputs else "constants"
        return replace(drawn, **{part: {**getattr(drawn, part), key: new}})
    name = d.pick(*drawn.attributes)
    value = drawn.attributes[name]
    if what == 5:
        return replace(drawn, attributes={k: v for k, v in drawn.attributes.items() if k != name})
    if isinstance(value, str):
        value = d.pick("linear", "SAME_UPPER", "no such", "Relu", "asymmetric")
    elif isinstance(value, (int, float)):
        value = d.pick(-value, value + 1, value - 1, 0, value * 100)
    elif isinstance(value, (list, tuple)) and value and not isinstance(value[0], str):
        value = d.pick([*value, value[-1]], list(value)[:-1] or [0], [v + 1 for v in value], [-v for v in value])
    return replace(drawn, attributes={**drawn.attributes, name: value})


def _pairs(part: int) -> Iterator[str]:
    for op in (op for op in sorted(operators()) if _in(part, op)):
        told, turn = [], len(op)
        for i, graph in enumerate(pairs(op, 12)):
            told += [_converted(graph), _streamed(graph, i)]
            if any(t.type == "FLOAT32" for t in graph.inputs):
                told.append(_converted(graph, calibration=_samples(graph), **WAYS[(i + turn) % len(WAYS)]))
        yield f"{op}: {len(told)} {sum(each[0] != 'r' for each in told)} {zlib.crc32(' '.join(told).encode()):08x}"


def _chains(part: int) -> Iterator[str]:
    for first in (first for first in range(0, 600, 10) if _in(part, first)):
        told = []
        for seed in range(first, first + 10):
            graph = chain(seed)
            told += [_converted(graph), _streamed(graph, seed)]
            if graph.inputs[0].type == "FLOAT32":
                told.append(_converted(graph, calibration=_samples(graph), **WAYS[seed % len(WAYS)]))
        yield f"{first}: {len(told)} {zlib.crc32(' '.join(told).encode()):08x}"


@FEW
def test_conversions_of_chains_are_as_kept(part: int, request: pytest.FixtureRequest) -> None:
    _as_kept("chains.txt", _chains(part), part, request)


@FEW
def test_conversions_of_pairs_are_as_kept(part: int, request: pytest.FixtureRequest) -> None:
    _as_kept("pairs.txt", _pairs(part), part, request)


@SOME
@pytest.mark.usefixtures("corpus")
def test_conversions_of_models_are_as_kept(part: int, request: pytest.FixtureRequest) -> None:
    _as_kept("models.txt", _models(part), part, request)


@EACH
@pytest.mark.usefixtures("corpus")
def test_streams_of_models_are_as_kept(part: int, request: pytest.FixtureRequest) -> None:
    _as_kept("streams.txt", _streams(part), part, request)


@SOME
def test_conversions_of_onnx_nodes_are_as_kept(part: int, request: pytest.FixtureRequest) -> None:
    _as_kept("onnx.txt", _onnx(part), part, request)
