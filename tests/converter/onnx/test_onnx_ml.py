"""ai.onnx.ml: ensembles of trees, linear models and scalers, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_tools import by_onnxruntime, compare, floats, model, run

from twinfer.converter.onnx import read_onnx
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError

FEATURES = 5


def tree(
    rng: np.random.Generator, votes: str, outputs: int, mode: str, trees: int = 7, depth: int = 4
) -> dict[str, Any]:
    """Attributes of random trees; leaves vote for one output, in a forest of several for two."""
    nodes: list[tuple[int, int, int, float, str, int, int]] = []
    said: list[tuple[int, int, int, float]] = []
    for t in range(trees):
        count, open_ones = 1, [(0, 0)]
        while open_ones:
            number, level = open_ones.pop()
            if level == depth or (level and rng.random() < 0.3):
                nodes.append((t, number, 0, 0.0, "LEAF", 0, 0))
                for output in rng.choice(outputs, min(outputs, 2), replace=False):
                    said.append((t, number, int(output), float(rng.normal())))
                continue
            # limits that inputs meet exactly: < and <= must not be confused
            nodes.append((t, number, int(rng.integers(FEATURES)), float(rng.integers(-2, 3)), mode, count, count + 1))
            open_ones += [(count, level + 1), (count + 1, level + 1)]
            count += 2
    keys = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    columns = {f"nodes_{key}": list(values) for key, values in zip(keys, zip(*nodes, strict=True), strict=True)}
    keys = ("treeids", "nodeids", "ids", "weights")
    return columns | {f"{votes}_{k}": list(v) for k, v in zip(keys, zip(*said, strict=True), strict=True)}


def check(rng: np.random.Generator, op: str, outputs: list[str], **attributes: Any) -> None:
    x = np.concatenate([floats(rng, 20, FEATURES), rng.integers(-2, 3, (20, FEATURES)).astype(np.float32)])
    proto = model([helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes)], {"x": x}, {}, outputs)
    compare(run(read_onnx(proto), {"x": x}), by_onnxruntime(proto, {"x": x}))


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])
def test_trees_that_give_numbers(mode: str) -> None:
    rng = np.random.default_rng(1)
    for outputs, aggregate in ((1, "SUM"), (3, "SUM"), (1, "AVERAGE")):
        given = tree(rng, "target", outputs, mode) | {"n_targets": outputs, "base_values": [0.5] * outputs}
        check(rng, "TreeEnsembleRegressor", ["y"], aggregate_function=aggregate, **given)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_trees_that_give_classes(transform: str) -> None:
    rng = np.random.default_rng(2)
    three = tree(rng, "class", 3, "BRANCH_LEQ")
    check(rng, "TreeEnsembleClassifier", ["l", "y"], post_transform=transform, classlabels_int64s=[4, 2, 9], **three)
    for sign in (1.0, -1.0):  # votes for class 0 alone: a share, or a log of odds
        two = tree(rng, "class", 1, "BRANCH_LEQ")
        two["class_weights"] = [sign * abs(w) / 7 for w in two["class_weights"]]
        check(rng, "TreeEnsembleClassifier", ["l", "y"], post_transform=transform, classlabels_int64s=[0, 1], **two)


@pytest.mark.parametrize(
    ("op", "outputs", "attributes"),
    [
        ("Scaler", ["y"], {"offset": [0.5] * FEATURES, "scale": [2.0, 1.0, 3.0, 0.1, 1.0]}),
        ("Normalizer", ["y"], {"norm": "L1"}),
        ("Normalizer", ["y"], {"norm": "L2"}),
        ("Binarizer", ["y"], {"threshold": 0.25}),
        ("LinearRegressor", ["y"], {"coefficients": [0.5, 1.0, -1.0, 2.0, 0.25], "intercepts": [1.0]}),
        (
            "LinearClassifier",
            ["l", "y"],
            {
                "coefficients": [0.1 * i for i in range(3 * FEATURES)], "intercepts": [0.1, 0.2, 0.3],
                "classlabels_ints": [5, 6, 7], "post_transform": "SOFTMAX",
            },
        ),
    ],
)  # fmt: skip
def test_what_stands_before_and_beside_trees(op: str, outputs: list[str], attributes: dict[str, Any]) -> None:
    check(np.random.default_rng(3), op, outputs, **attributes)


def test_trees_that_cannot_be_read() -> None:
    rng = np.random.default_rng(4)
    given = tree(rng, "target", 1, "BRANCH_EQ") | {"n_targets": 1}
    x = {"x": floats(rng, 2, FEATURES)}

    def refused(**attributes: Any) -> str:
        node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **{**given, **attributes})
        with pytest.raises((ModelError, UnsupportedOperatorError)) as raised:
            read_onnx(model([node], x, {}, ["y"]))
        return str(raised.value)

    assert "nodes of mode BRANCH_EQ" in refused()
    modes = ["LEAF" if mode == "LEAF" else "BRANCH_LEQ" for mode in given["nodes_modes"]]
    assert "feature 99 of 5" in refused(nodes_modes=modes, nodes_featureids=[99] * len(modes))
    assert "aggregate_function MAX" in refused(nodes_modes=modes, aggregate_function="MAX")
