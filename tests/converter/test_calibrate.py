"""Calibration data, histograms and the choice of ranges; recipes."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import random_graph

from twinfer.converter.build import Builder
from twinfer.converter.quantize.affine import LIMITS, Range, activation
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.quantize.methods import CLIPPED, METHODS, ROOM, method
from twinfer.converter.quantize.observed import BATCH, Observed
from twinfer.converter.quantize.recipe import Choice, read_recipe, recipe
from twinfer.runtime.affine import dequantize, quantize
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, Tensor

values = st.lists(st.floats(-(2.0**66), 2.0**66, width=32), min_size=1, max_size=40).map(
    lambda v: np.array(v, np.float32)
)


def seen_of(*samples: Any) -> Observed:
    seen = Observed()
    for sample in samples:
        seen.add(np.asarray(sample, np.float32))
    return seen


def two_inputs() -> Graph:
    b = Builder("two")
    x, y = b.input("a", "FLOAT32", (1, 3)), b.input("b", "FLOAT32", (2, 3))
    return b.graph([b.op("ADD", [x, y])])


# -- histograms --------------------------------------------------------------------------------------------------------


# -- methods -----------------------------------------------------------------------------------------------------------


def test_room_for_samples_not_seen() -> None:
    """The next sample exceeds the range rarely, however few there were; many samples need no room."""
    rng, over = np.random.default_rng(6), []
    for _ in range(400):
        peaks = rng.exponential(1.0, 13) + 3
        seen = seen_of(*([0.0, peak] for peak in peaks[:12]))
        low, high = METHODS["extended"](seen, "INT8")
        over.append(peaks[12] > high)
        assert (low, high > seen.high) == (0.0, True)
    assert np.mean(over) < 0.03
    many = seen_of(*([-peak, peak] for peak in rng.exponential(1.0, 120)))
    assert METHODS["extended"](many, "INT8") == METHODS["minmax"](many, "INT8")


@settings(deadline=None, max_examples=50)
@given(st.lists(values, min_size=1, max_size=3), st.sampled_from(list(METHODS)), st.sampled_from(list(LIMITS)))
def test_ranges_lie_within_what_was_seen(parts: list[Any], name: str, type: str) -> None:
    seen = seen_of(*(np.resize(part, 40) for part in parts))
    low, high = METHODS[name](seen, type)
    room, slack = (ROOM if type == "INT16" else 1.0), 1e-6 * max(abs(seen.low), abs(seen.high))
    assert min(seen.low, 0) * room - slack <= low <= high <= max(seen.high, 0) * room + slack


def test_mse_is_the_best_of_all_methods_at_what_it_measures() -> None:
    data = np.random.default_rng(2).laplace(size=100_000)
    seen = seen_of(data)

    def error(name: str) -> float:
        quant = activation(METHODS[name](seen, "INT8"), "INT8")
        return float(np.mean((dequantize(quantize(data, quant, -128, 127), quant) - data) ** 2))

    assert error("mse") <= 1.001 * min(map(error, METHODS))


def test_the_moving_average_starts_as_the_mean_of_the_batches() -> None:
    parts = np.random.default_rng(3).standard_normal((5, BATCH, 8))
    seen = seen_of(*parts.reshape(-1, 8), [99])  # of the sixth batch there is one sample only
    want = parts.min((1, 2)).mean(), parts.max((1, 2)).mean()
    assert METHODS["moving-average"](seen, "INT8") == pytest.approx(want)


HOSTILE = {
    "relu": lambda rng: np.maximum(rng.standard_normal(50_000), 0),
    "relu, all but zero": lambda rng: np.where(rng.random(50_000) < 0.98, 0, rng.exponential(size=50_000)),
    "relu6, at its end": lambda rng: np.clip(rng.normal(4, 3, 50_000), 0, 6),
    "relu6, with a background": lambda rng: np.concatenate(
        [np.clip(rng.exponential(0.6, 50_000), 0, 6), *(np.full(8_000, b) for b in (0.21, 0.4, 0.92))]
    ),
    "relu6, few values": lambda rng: np.clip(rng.normal(2, 2, 600), 0, 6),
    "bimodal": lambda rng: np.concatenate([rng.normal(-1, 0.05, 40_000), rng.normal(9, 0.05, 10_000)]),
    "far peak": lambda rng: np.concatenate([rng.normal(0, 0.1, 49_000), rng.normal(7, 0.1, 1_000)]),
    "one value": lambda rng: np.full(1000, 6.0),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("method", METHODS)
def test_no_method_collapses(name: str, method: str) -> None:
    """If many values are equal or far from the others, the error stays within 10 dB of that of the whole range."""
    rng = np.random.default_rng(7)
    data = rng.permutation(HOSTILE[name](rng)).astype(np.float32)
    seen = seen_of(*data[: data.size // (2 * BATCH) * 2 * BATCH].reshape(2 * BATCH, -1))

    def error(limits: Range) -> float:
        quant = activation(limits, "INT8")
        return float(np.mean((dequantize(quantize(data, quant, -128, 127), quant) - data) ** 2))

    low, high = METHODS[method](seen, "INT8")
    slack = 1e-6 * max(abs(seen.low), abs(seen.high))
    if method == "entropy":
        assert ((data < low - slack) | (data > high + slack)).mean() <= CLIPPED
    assert error((low, high)) <= 10 * error((seen.low, seen.high)) + 1e-12


# -- affine ------------------------------------------------------------------------------------------------------------


# -- data --------------------------------------------------------------------------------------------------------------


def test_every_form_of_data_is_the_same(tmp_path: Path) -> None:
    graph = random_graph(1, ["conv", "relu"])
    data = np.random.default_rng(1).standard_normal((5, 4, 3, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", data)
    np.savez(tmp_path / "x.npz", x=data)
    np.savez(tmp_path / "labelled.npz", x=data, labels=np.arange(5))
    forms = [
        tmp_path / "x.npy", str(tmp_path / "x.npz"), tmp_path / "labelled.npz", {"x": data},
        {"x": data[:, None]}, {"x": data.astype(np.float64)},
        [{"x": d} for d in data], ({"x": d[None]} for d in data),
        {"image": data}, data, list(data), [{"image": d} for d in data], {"image": data, "labels": np.arange(5)},
    ]  # fmt: skip
    ranges = [[(o.low, o.high, o.count) for o in calibrate(graph, form).values()] for form in forms]
    assert all(r == ranges[0] for r in ranges)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": np.zeros((2, 3)), "c": np.zeros((2, 2, 3))}, "inputs 'a', 'b', not 'a', 'c'"),
        ([{"a": np.zeros(3)}], "sample 0 must hold the model's inputs 'a', 'b', not 'a'"),
        ({"a": np.zeros((2, 3)), "b": np.zeros((1, 2, 3))}, "as many samples as the others.*'a' 2, 'b' 1"),
        ({"a": np.zeros((2, 4)), "b": np.zeros((2, 2, 3))}, r"sample 0, input 'a': shape \[4\].*\[1, 3\] or \[3\]"),
        ({"a": np.zeros((2, 3)), "b": np.zeros((2, 3))}, r"input 'b': shape \[3\], the model takes \[2, 3\]"),
        ({"a": np.zeros((2, 3), complex), "b": np.zeros((2, 2, 3))}, "dtype complex128"),
        ({"a": np.full((2, 3), np.nan), "b": np.zeros((2, 2, 3))}, r"0, input 'a': the value at \[0, 0\] is nan"),
        ({"a": np.full((2, 3), 1e300), "b": np.zeros((2, 2, 3))}, "is inf"),
        ({"a": np.zeros((0, 3)), "b": np.zeros((0, 2, 3))}, "empty"),
        ([], "empty"),
        ([1], "sample 0 is a int, not a dict of the inputs 'a', 'b'"),
        (np.zeros((2, 3)), "sample 0 is a ndarray, not a dict of the inputs 'a', 'b'"),
        (1, "cannot be a int"),
        ("nothing.npz", "cannot be read"),
        ({"a": [[1, 2, 3], [4]], "b": np.zeros((2, 2, 3))}, "input 'a': is no array"),
        ([{"a": [1, [2]], "b": np.zeros((2, 3))}], "sample 0, input 'a': is no array"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit(data: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        calibrate(two_inputs(), data)


# -- recipes -----------------------------------------------------------------------------------------------------------


def node(op: str, name: str) -> Node:
    return Node(op, (), (Tensor(name, "FLOAT32", (1,)),))


SETS = {
    "precision": st.sampled_from(["int8", "int16x8", "int4", "float"]),
    "granularity": st.sampled_from(["channel", "tensor"]),
    "method": st.sampled_from(["minmax", "mse", "percentile-99"]),
    "prune": st.sampled_from([0, 0.25, 0.5]),
    "prune_block": st.sampled_from(["1x1", "1x4"]),
    "cluster": st.sampled_from([0, 2, 7]),
}
NAMES = st.sampled_from(["a", "b", "ab", "a/b", "x"])
OPERATORS = st.sampled_from(["INPUT", "SPLIT", "ADD"])
PATTERNS = st.sampled_from(["a", "b", "a.*", "a|x", ".", ".*b"])
TABLES = st.builds(
    lambda by, sets: {**by, **sets},
    st.fixed_dictionaries({"name": PATTERNS}, optional={"operator": OPERATORS}) | st.builds(dict, operator=OPERATORS),
    st.fixed_dictionaries({}, optional=SETS),
)


@settings(max_examples=60, deadline=None)
@given(
    default=st.fixed_dictionaries({}, optional=SETS), tables=st.lists(TABLES, max_size=4),
    op=st.sampled_from(["INPUT", "SPLIT", "ADD"]), names=st.lists(NAMES, min_size=1, max_size=3, unique=True),
)  # fmt: skip
def test_a_recipe_is_its_default_changed_by_all_rules_that_match(
    default: dict[str, Any], tables: list[dict[str, Any]], op: str, names: list[str]
) -> None:
    """In order, from JSON; of a node with several outputs any name counts, and always the whole."""
    names = names[:1] if op == "INPUT" else names
    outputs = tuple(Tensor(name, "FLOAT32", (1,)) for name in names)
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "r.json").write_text(json.dumps({"rule": tables}))
        read = read_recipe(path, Choice(**default))
    got = read.of_input(outputs[0]) if op == "INPUT" else read.of_node(Node(op, (), outputs))
    plain = {
        "precision": "int8",
        "granularity": None,
        "method": "minmax",
        "prune": 0,
        "prune_block": "1x1",
        "cluster": 0,
    }
    want = plain | default
    for table in tables:
        pattern = re.compile(f"(?:{table.get('name', '.*')})\\Z")
        if table.get("operator", op) == op and any(map(pattern.match, names)):
            want |= {key: value for key, value in table.items() if key not in ("name", "operator")}
    assert asdict(got) == want
    for key, said in (("prune", read.prunes), ("cluster", read.clusters)):
        assert said == any(each.get(key) for each in (default, *tables))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"rules": []}, "tables called 'rule'"),
        ({"rule": [1]}, "rule 1 is a int"),
        ({"rule": [{"operator": "ADD"}, {"precision": "int8"}]}, "rule 2: it matches nothing"),
        ({"rule": [{"operator": "CONV"}]}, "rule 1: 'CONV' is no operator"),
        ({"rule": [{"operator": "ADD", "precision": "int7"}]}, "'int7' is no precision; there are: int8"),
        ({"rule": [{"operator": "ADD", "method": "max"}]}, "no method"),
        ({"rule": [{"operator": "ADD", "granularity": "block"}]}, "no granularity"),
        ({"rule": [{"operator": "ADD", "bits": "8"}]}, "rule 1 has no key 'bits'"),
        ({"rule": [{"operator": 3}]}, "rule 1: operator must be a string"),
        ({"rule": [{"name": "("}]}, "no regular expression"),
        ({"rule": [{"name": "x{99999999999}"}]}, "no regular expression"),
        ({"rule": [{"name": "(" * 5000 + ")" * 5000}]}, "no regular expression"),
    ],
)
def test_wrong_recipes(tables: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        recipe(tables)


def test_recipe_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("[[rule]")
    (tmp_path / "r.json").write_text("[]")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for name in ("r.toml", "r.json", "none.toml", "deep.toml", "deep.json"):
        with pytest.raises(InvalidArgumentError, match=name):
            read_recipe(tmp_path / name)


@pytest.mark.parametrize("sign", [1, -1])
def test_entropy_clips_few_values_at_either_end(sign: int) -> None:
    rng = np.random.default_rng(0)
    values = sign * np.append(rng.normal(0, 0.1, 9900), rng.normal(30, 1, 100))
    low, high = METHODS["entropy"](seen_of(values), "INT8")
    assert np.mean((values < low) | (values > high)) <= CLIPPED


@pytest.mark.parametrize("type", ["INT8", "INT16"])
@pytest.mark.parametrize("name", [*METHODS, "percentile-99.9"])
def test_methods_of_nothing_but_zeros(name: str, type: str) -> None:
    seen = Observed()
    for _ in range(3):
        seen.add(np.zeros(8, np.float32))
    assert method(name)(seen, type) == (0, 0)


@pytest.mark.parametrize("name", ["mse", "entropy"])
def test_fine_steps_need_no_clipping(name: str) -> None:
    seen = seen_of(np.append(np.random.default_rng(1).normal(size=20000), [-9.0, 10.0]))
    assert METHODS[name](seen, "INT16") == METHODS["minmax"](seen, "INT16")
    assert METHODS[name](seen, "INT8") != METHODS["minmax"](seen, "INT8")
