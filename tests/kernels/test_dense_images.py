"""FULLY_CONNECTED over an image: its pixels are batches, however its layers are cut, threaded and stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import interpreted, outputs_of, same

from twinfer.converter.build import Builder
from twinfer.kernels_c import lib
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Memory, Options
from twinfer.runtime.plan import split
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import AVX512_VNNI, DSP, GENERIC, HOST, MVE

KINDS = {"INT8": np.int32, "INT16": np.int64, "FLOAT32": np.float32}


def dense(kind: str, shape: tuple[int, ...], out: int, *, keep: bool = True, values: int = 127) -> Graph:
    """A layer over the last dimension of ``shape``, between two that can run by rows."""
    rng, b, depth = np.random.default_rng(out), Builder("dense"), shape[-1]
    x = b.input("x", kind, shape, *(() if kind == "FLOAT32" else (0.01, 0)))
    w, bias = rng.integers(-values, values + 1, (out, depth)), rng.integers(-500, 500, out)
    if kind == "FLOAT32":
        y = b.op("FULLY_CONNECTED", [x, w.astype(np.float32), bias.astype(np.float32)], keep_num_dims=keep)
        return b.graph([b.op("RELU", [y])])
    weights = b.constant(w.astype(np.int8), np.float32(0.01))
    first = b.constant(bias.astype(KINDS[kind]), np.float32(0.0001))
    y = b.op("FULLY_CONNECTED", [x, weights, first], scale=0.05, zero=0, keep_num_dims=keep)
    return b.graph([b.op("RELU", [y], scale=0.05, zero=0)])


def outputs(graph: Graph, memory: Memory = "layers", threads: int = 1, level: int | None = None) -> list[Any]:
    plan = make_plan(graph, isa.this_computer(), Options(memory=memory))
    return outputs_of(Session(plan, level, threads), random_inputs(graph))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 9, 8, 12), (1, 5, 1, 7), (2, 3, 5, 6)])
def test_parts_and_rows(kind: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "LEAST", 1)
    graph = dense(kind, shape, 20)
    (want,) = outputs(graph)
    for level in range(lib.tw_level() + 1):
        for memory, threads in (("rows", 1), ("layers", 2), ("layers", 3)):
            (got,) = outputs(graph, memory, threads, level)  # type: ignore[arg-type]
            np.testing.assert_array_equal(got, want, err_msg=f"{memory}, {threads} threads, level {level}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [HOST, AVX512_VNNI, DSP, MVE, GENERIC], ids=lambda target: target.name)
def test_no_batch(kind: str, target: Any) -> None:
    graph = dense(kind, (0, 16), 8, keep=False)
    (got,) = interpreted(graph, random_inputs(graph), target, 0)
    assert got.shape == (0, 8)


@pytest.mark.parametrize("shape", [(1, 64), (4, 64)])
@pytest.mark.parametrize("coding", ["lut", "huffman", "bitmap"])
def test_coded_weights_of_int16(shape: tuple[int, ...], coding: Any) -> None:
    """Weights that are widened to int16 are coded, too, and give the same bits."""
    graph = dense("INT16", shape, 32, values=3)
    plans = [make_plan(graph, AVX512_VNNI, Options(weights=how)) for how in ("plain", coding)]
    assert plans[1].constant_bytes < 0.8 * plans[0].constant_bytes
    same(*(outputs_of(Session(plan, 0), random_inputs(graph)) for plan in plans))
