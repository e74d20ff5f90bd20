"""The domain ai.onnx.ml, which scikit-learn, LightGBM and XGBoost are exported to: trees, linear models, scalers.

An ensemble of trees becomes as many steps as its deepest tree has levels, each for all trees at once. A step knows in
which node every tree is. It gathers the nodes' features and limits, compares, and gathers the next nodes. So a node
takes 12 bytes, and no tree takes an operator of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit import functions
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

#: How an inner node compares its feature with its limit, by the names of old operators and the numbers of new ones.
LEQ, LT, GTE, GT = "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"
MODES = (LEQ, LT, GTE, GT, "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass
class Branch:
    """A node of a tree that has two children: numbers of branches, or of leaves below 0 (-1 is leaf 0)."""

    feature: int
    limit: float
    mode: str
    yes: int
    no: int


@dataclass
class Forest:
    """Trees by the numbers of their roots, branches, and what leaves add: (leaf, output, weight)."""

    roots: list[int]
    branches: list[Branch]
    votes: list[tuple[int, int, float]]
    outputs: int
    base: list[float] = field(default_factory=list)
    aggregate: str = "SUM"


def scores(g: Emitter, node: OnnxNode, forest: Forest) -> Tensor:
    """What the trees add up to, [batch, outputs], before any transformation."""
    x = g.cast(node.input(0), "FLOAT32")
    node.need(
        forest.aggregate in ("SUM", "AVERAGE"), f"aggregate_function {forest.aggregate}; there is SUM and AVERAGE"
    )
    features, limits, children, leaves, roots, levels = _numbered(node, forest, x.shape[1])
    batch, columns = x.shape
    flat, rows = g.reshape(x, (x.size,)), np.arange(batch, dtype=np.int32)[:, None] * np.int32(columns)
    place = g.repeat(g.known(roots.reshape(1, -1)), (batch, roots.size))
    for _ in range(levels):
        column = _at(g, g.known(features), place)
        value = _at(g, flat, column if batch == 1 else g.binary("ADD", column, rows))
        right = g.binary("LESS_EQUAL", value, _at(g, g.known(limits), place), type="BOOL")
        place = g.binary("ADD", _at(g, g.known(children), place), g.cast(right, "INT32"))
    weights = np.zeros((len(features), forest.outputs), np.float32)
    for leaf, output, weight in forest.votes:
        weights[leaves[leaf], output] += weight
    total = _sums(g, place, weights, roots.size)
    if forest.aggregate == "AVERAGE":
        total = g.binary("MUL", total, functions.number(1 / roots.size))
    return g.binary("ADD", total, np.array(forest.base, np.float32)) if any(forest.base) else total


def _at(g: Emitter, table: Tensor, places: Tensor) -> Tensor:
    """Elements of a table by places, which are never negative."""
    return g.emit("GATHER", [table, places], places.shape, axis=0)


def _sums(g: Emitter, place: Tensor, weights: NDArray[np.float32], trees: int) -> Tensor:
    """The sums of the trees' leaves, [batch, outputs]."""
    columns = [
        g.emit("SUM", [_at(g, g.known(column), place), np.array([1], np.int32)], (place.shape[0], 1), keep_dims=True)
        for column in np.ascontiguousarray(weights.T)
    ]
    return g.concat(columns, 1)


def _numbered(
    node: OnnxNode, forest: Forest, columns: int
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], dict[int, int], NDArray[np.int32], int]:
    """The nodes in rows, so that a child that is taken if the feature is at most the limit is behind its sibling.

    Features, limits, first children, the rows of leaves, those of roots, and how many levels the trees have. A leaf's
    limit is -infinity and it is its own child, so it stays where it is.
    """
    rows: list[tuple[int, float, int]] = []
    leaves: dict[int, int] = {}
    roots, level = list(range(len(forest.roots))), list(zip(forest.roots, range(len(forest.roots)), strict=True))
    rows += [(0, -np.inf, 0)] * len(roots)
    levels = 0
    while level:
        following = []
        for number, row in level:
            if number < 0:
                if leaves.setdefault(-1 - number, row) != row:
                    raise ModelError(f"{node}: leaf {-1 - number} is in two places")
                rows[row] = (0, -np.inf, row)
                continue
            if len(rows) > 4 * len(forest.branches) + len(roots):
                raise ModelError(f"{node}: its trees have circles")
            branch = forest.branches[number]
            if not 0 <= branch.feature < columns:
                raise ModelError(f"{node}: feature {branch.feature} of {columns}")
            limit, yes, no = _at_most(node, branch)
            rows[row] = (branch.feature, limit, len(rows))
            following += [(no, len(rows)), (yes, len(rows) + 1)]
            rows += [(0, -np.inf, 0)] * 2
        levels += any(number >= 0 for number, _ in level)
        level = following
    features, limits, children = zip(*rows, strict=True)
    return (
        np.array(features, np.int32), np.array(limits, np.float32), np.array(children, np.int32), leaves,
        np.array(roots, np.int32), levels,
    )  # fmt: skip


def _at_most(node: OnnxNode, branch: Branch) -> tuple[float, int, int]:
    """The branch as "at most this float32": the limit, and the children if so and if not."""
    node.need(branch.mode in (LEQ, LT, GTE, GT), f"nodes of mode {branch.mode}; there is {LEQ}, {LT}, {GTE} and {GT}")
    limit = np.float32(branch.limit)
    if limit > branch.limit or (branch.mode in (LT, GTE) and limit == branch.limit):
        limit = np.nextafter(limit, np.float32(-np.inf))
    yes, no = (branch.yes, branch.no) if branch.mode in (LEQ, LT) else (branch.no, branch.yes)
    return float(limit), yes, no


def _old(node: OnnxNode, votes: str, outputs: int) -> Forest:
    """The forest of a TreeEnsembleClassifier or TreeEnsembleRegressor, whose nodes have numbers within their tree."""

    def listed(name: str) -> list[Any]:
        tensor = node.attribute(f"{name}_as_tensor", None)
        return list(node.attribute(name, [])) if tensor is None else [float(v) for v in tensor.reshape(-1)]

    trees, numbers, modes = listed("nodes_treeids"), listed("nodes_nodeids"), listed("nodes_modes")
    inner, leaves = dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    for key, mode in zip(zip(trees, numbers, strict=True), modes, strict=True):
        kind = leaves if mode == "LEAF" else inner
        kind[key] = len(kind)
    number = {**inner, **{key: -1 - i for key, i in leaves.items()}}
    columns = (listed(f"nodes_{name}") for name in ("featureids", "values", "truenodeids", "falsenodeids"))
    branches = [
        Branch(feature, limit, mode, number[tree, yes], number[tree, no])
        for tree, mode, feature, limit, yes, no in zip(trees, modes, *columns, strict=True)
        if mode != "LEAF"
    ]
    children = {n for branch in branches for n in (branch.yes, branch.no)}
    roots = [n for n in number.values() if n not in children]
    columns = (listed(f"{votes}_{name}") for name in ("treeids", "nodeids", "ids", "weights"))
    said = [(leaves[tree, leaf], output, w) for tree, leaf, output, w in zip(*columns, strict=True)]
    return Forest(roots, branches, said, outputs, listed("base_values"), node.attribute("aggregate_function", "SUM"))


def tree_ensemble(g: Emitter, node: OnnxNode) -> Tensor:
    """TreeEnsemble of version 5: branches and leaves in lists of their own."""
    get = node.attribute
    yes, no = (zip(get(f"nodes_{w}nodeids", []), get(f"nodes_{w}leafs", []), strict=True) for w in ("true", "false"))
    branches = [
        Branch(feature, float(limit), MODES[mode], -1 - a if a_leaf else a, -1 - b if b_leaf else b)
        for feature, limit, mode, (a, a_leaf), (b, b_leaf) in zip(
            get("nodes_featureids", []), get("nodes_splits", []), get("nodes_modes", []), yes, no, strict=True
        )
    ]
    node.need("membership_values" not in node.attributes, "nodes of mode BRANCH_MEMBER; export trees with limits")
    votes = [
        (i, output, float(w))
        for i, (output, w) in enumerate(zip(get("leaf_targetids", []), get("leaf_weights", []), strict=True))
    ]
    aggregate = AGGREGATES[get("aggregate_function", 1)]
    forest = Forest(list(get("tree_roots", [])), branches, votes, int(get("n_targets", 1)), aggregate=aggregate)
    return _transformed(g, node, scores(g, node, forest), TRANSFORMS[get("post_transform", 0)])


def tree_regressor(g: Emitter, node: OnnxNode) -> Tensor:
    total = scores(g, node, _old(node, "target", int(node.attribute("n_targets", 1))))
    return _transformed(g, node, total, node.attribute("post_transform", "NONE"))


def tree_classifier(g: Emitter, node: OnnxNode) -> list[Tensor]:
    """Labels [batch], int64, and scores [batch, classes]. If of two classes only class 0 has votes, as exporters write
    it, their sum speaks for class 1 (ONNX Runtime)."""
    labels = _labels(node, "classlabels_int64s")
    transform = node.attribute("post_transform", "NONE")
    forest = _old(node, "class", len(labels))
    if len(labels) != 2 or any(output for _, output, _ in forest.votes):
        total = scores(g, node, forest)
        return [_label(g, total, labels), _transformed(g, node, total, transform)]
    forest.outputs = 1
    share = all(weight >= 0 for _, _, weight in forest.votes)  # else a log of odds
    total = scores(g, node, forest)
    yes = g.binary("GREATER", total, functions.number(0.5 if share else 0.0), type="BOOL")
    label = g.reshape(g.emit("SELECT_V2", [yes, labels[1:], labels[:1]], total.shape, "INT64"), total.shape[:1])
    other = g.unary("NEG", total)
    if transform == "LOGISTIC":
        return [label, g.unary("LOGISTIC", g.concat([other, total], 1))]
    return [label, g.concat([g.binary("ADD", other, functions.number(1.0)) if share else other, total], 1)]


def _label(g: Emitter, total: Tensor, labels: NDArray[np.int64]) -> Tensor:
    best = g.emit("ARG_MAX", [total, np.array(1, np.int32)], total.shape[:1], "INT64", output_type="INT64")
    return best if (labels == np.arange(labels.size)).all() else g.gather(g.known(labels), best, 0)


def _labels(node: OnnxNode, name: str) -> NDArray[np.int64]:
    """The classes' labels; of strings their places, as nobody may read the strings."""
    words = node.attribute("classlabels_strings", [])
    if words and node.outputs[0]:
        raise UnsupportedOperatorError("labels that are strings; export the model with whole numbers as labels")
    return np.arange(len(words)) if words else np.array(node.attribute(name, []), np.int64)


def _transformed(g: Emitter, node: OnnxNode, x: Tensor, transform: str) -> Tensor:
    if transform in ("SOFTMAX", "LOGISTIC"):
        return g.unary("SOFTMAX", x, beta=1.0) if transform == "SOFTMAX" else g.unary("LOGISTIC", x)
    node.need(transform == "NONE", f"post_transform {transform}; there is NONE, SOFTMAX and LOGISTIC")
    return x


def _linear(g: Emitter, node: OnnxNode, rows: int) -> Tensor:
    """Coefficients [rows, features] times x, and intercepts: [batch, rows]."""
    weights = np.array(node.attribute("coefficients", []), np.float32).reshape(rows, -1)
    bias = np.array(node.attribute("intercepts", [0.0] * rows), np.float32)
    x = g.cast(node.input(0), "FLOAT32")
    return g.emit("FULLY_CONNECTED", [x, weights, bias], (x.shape[0], rows))


def linear_regressor(g: Emitter, node: OnnxNode) -> Tensor:
    return _transformed(
        g, node, _linear(g, node, int(node.attribute("targets", 1))), node.attribute("post_transform", "NONE")
    )


def linear_classifier(g: Emitter, node: OnnxNode) -> list[Tensor]:
    """Labels and scores; one row of coefficients decides between two classes."""
    labels = _labels(node, "classlabels_ints")
    rows = len(node.attribute("intercepts", [])) or labels.size
    total = _linear(g, node, rows)
    if rows == 1 and labels.size == 2:
        total = g.concat([g.unary("NEG", total), total], 1)
    return [_label(g, total, labels), _transformed(g, node, total, node.attribute("post_transform", "NONE"))]


def scaler(g: Emitter, node: OnnxNode) -> Tensor:
    x = g.cast(node.input(0), "FLOAT32")
    offset, scale = (np.array(node.attribute(name, [v]), np.float32) for name, v in (("offset", 0.0), ("scale", 1.0)))
    return g.binary("MUL", g.binary("SUB", x, offset), scale)


def normalizer(g: Emitter, node: OnnxNode) -> Tensor:
    """Rows divided by their largest number, by their sum or by their length."""
    x, norm = g.cast(node.input(0), "FLOAT32"), node.attribute("norm", "MAX")
    node.need(norm in ("MAX", "L1", "L2"), f"norm {norm}; there is MAX, L1 and L2")
    axis, shape = np.array([-1], np.int32), (*x.shape[:-1], 1)
    sized = x if norm == "MAX" else g.unary("ABS", x) if norm == "L1" else g.binary("MUL", x, x)
    size = g.emit("REDUCE_MAX" if norm == "MAX" else "SUM", [sized, axis], shape, keep_dims=True)
    return g.binary("DIV", x, g.unary("SQRT", size) if norm == "L2" else size)


def binarizer(g: Emitter, node: OnnxNode) -> Tensor:
    x = node.input(0)
    limit = np.array(node.attribute("threshold", 0.0), x.dtype)
    return g.cast(g.binary("GREATER", x, limit, type="BOOL"), x.type)


def imputer(g: Emitter, node: OnnxNode) -> Tensor:
    """Numbers in the place of NaN, or of one that stands for a value that is not known."""
    x = node.input(0)
    name, hole = ("floats", "float") if x.type == "FLOAT32" else ("int64s", "int64")
    values = np.array(node.attribute(f"imputed_value_{name}", []), x.dtype)
    missing = node.attribute(f"replaced_value_{hole}", np.nan if hole == "float" else 0)
    other = x if missing != missing else np.array(missing, x.dtype)
    known = g.binary("NOT_EQUAL" if other is not x else "EQUAL", x, other, type="BOOL")
    return g.emit("SELECT_V2", [known, x, values], x.shape, x.type)


def feature_extractor(g: Emitter, node: OnnxNode) -> Tensor:
    """Columns of x, which may be constants by an index that is known at run time: the labels of classes."""
    x, picked = node.input(0), node.input(1)
    rows = x if len(x.shape) > 1 else g.reshape(x, (1, x.size))
    return g.gather(rows, g.reshape(picked, (picked.size,)), len(rows.shape) - 1)


IMPORTERS = {
    f"ai.onnx.ml:{name}": function
    for name, function in {
        "ArrayFeatureExtractor": feature_extractor,
        "Binarizer": binarizer,
        "Imputer": imputer,
        "LinearClassifier": linear_classifier,
        "LinearRegressor": linear_regressor,
        "Normalizer": normalizer,
        "Scaler": scaler,
        "TreeEnsemble": tree_ensemble,
        "TreeEnsembleClassifier": tree_classifier,
        "TreeEnsembleRegressor": tree_regressor,
    }.items()
}
