"""Convolutions between blocks: all paddings, crops, windows and blocks keep their results, joined or not."""

from __future__ import annotations

import numpy as np
from passes_tools import CONV, assert_same, bytes_

from twinfer.converter.build import Builder
from twinfer.converter.passes.dilations import dilations
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Graph


def around(rng: np.random.Generator, shape: Array, block: Array, size: Array) -> tuple[Array, Array]:
    """Paddings and crops, (before, after) per axis; more often than not such that the windows are those of SAME."""
    pads, crops = rng.integers(0, 5, (2, 2)), rng.integers(0, 3, (2, 2)) * rng.integers(0, 2)
    if rng.random() < 0.7:
        pads[:, 0] = (size - 1) * block // 2 + crops[:, 0]
        pads[:, 1] += (size - 1) * block
    pads[:, 1] += -(pads.sum(1) + shape) % block
    if rng.random() < 0.9:
        crops[:, 1] = np.maximum(pads.sum(1) - (size - 1) * block - crops[:, 0], 0)
    return pads, crops


def random_graph(rng: np.random.Generator) -> Graph | None:
    """A layer between blocks; None where its parts do not fit."""
    b = Builder("random")
    block, size = rng.integers(1, 4, 2), rng.integers(1, 4, 2)
    x = b.input("x", "INT8", (1, *map(int, rng.integers(2, 10, 2)), 2), 0.05, int(rng.choice([-128, 3])))
    pads, crops = around(rng, np.array(x.shape[1:3]), block, size)
    depthwise = bool(rng.integers(2))
    w = b.constant(bytes_(1 if depthwise else 3, *size, 2), 0.01)
    op, more = ("DEPTHWISE_CONV_2D", {"depth_multiplier": 1}) if depthwise else ("CONV_2D", {})
    options = {**CONV, **more, "padding": str(rng.choice(["SAME", "VALID"]))}
    options |= {f"stride_{side}": int(rng.choice([1, 1, 1, 1, 2])) for side in "hw"}
    try:
        split = b.op("SPACE_TO_BATCH_ND", [x, block.astype(np.int32), pads.astype(np.int32)])
        layer = b.op(op, [split, w], scale=0.1, zero=7, **options)
        y = b.op("BATCH_TO_SPACE_ND", [layer, block.astype(np.int32), crops.astype(np.int32)])
    except TwinferError:
        return None
    return b.graph([y]) if y.size else None


def test_results_stay() -> None:
    rng, joined, kept = np.random.default_rng(5), 0, 0
    for _ in range(250):
        graph = random_graph(rng)
        if graph is None:
            continue
        after = dilations(graph)
        assert len(after.nodes) in (1, 3)
        assert_same(graph, after, seeds=(1,))
        joined, kept = joined + (len(after.nodes) == 1), kept + (len(after.nodes) == 3)
    assert min(joined, kept) > 40
