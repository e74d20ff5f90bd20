"""quantize="auto": the cheapest precision of every layer that keeps the outputs good enough."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.lab.train_digits import load
from twinfer.bench.models.builtin import float_model
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
from twinfer.converter.quantize.recipe import Recipe, Rule
from twinfer.converter.search.auto import choose
from twinfer.converter.search.mix import _cheapest, _crossing, _Part
from twinfer.converter.search.trial import Trial
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.price import instructions
from twinfer.runtime.target import DSP, GENERIC
from twinfer.runtime.write.tflite import write


def net(power: int = 0) -> Graph:
    """A wide layer, then ``power`` squares, of which int8 loses the small ones, then a narrow layer."""
    b, rng = Builder("net"), np.random.default_rng(3)
    x = b.input("x", "FLOAT32", (1, 32))
    for channels in (512, 32):
        weights = rng.normal(size=(channels, x.shape[1])).astype(np.float32) / 4
        x = b.op("FULLY_CONNECTED", [x, weights, None], fused_activation_function="RELU")
    for _ in range(power):
        x = b.op("MUL", [x, x])
    weights = rng.normal(size=(4, 32)).astype(np.float32)
    return b.graph([b.op("FULLY_CONNECTED", [x, weights, None], fused_activation_function="NONE")])


def rows(count: int = 40) -> dict[str, Any]:
    return {"x": np.random.default_rng(4).normal(size=(count, 32)).astype(np.float32)}


def by_litert(graph: Graph, data: Any) -> Any:
    peer = LiteRT(model_content=write(graph))
    peer.allocate_tensors()
    results = []
    ((into,), (out,)) = peer.get_input_details(), peer.get_output_details()
    for row in data:
        scale, zero = into["quantization"]
        limits = np.iinfo(into["dtype"]) if scale else None
        fed = np.clip(np.rint(row / scale) + zero, limits.min, limits.max) if limits else row
        peer.set_tensor(into["index"], fed.astype(into["dtype"]).reshape(into["shape"]))
        peer.invoke()
        scale, zero = out["quantization"]
        value = peer.get_tensor(out["index"]).astype(np.float64)
        results.append((value - zero) * scale if scale else value)
    return np.array(results)


def test_layers_that_int8_spoils_get_another_precision() -> None:
    """As measured by LiteRT, at less than the whole model in int16 or float would cost."""
    graph, data, wanted = net(power=1), rows(), 25
    made = conversion(graph, quantize="auto", calibration=data, min_snr=wanted)
    assert made.chosen is not None
    want, got = by_litert(graph, data["x"]), by_litert(made.graph, data["x"])
    assert 10 * np.log10(np.square(want).sum() / np.square(want - got).sum()) > wanted - 1.5
    assert made.chosen.whole["int8"].snr_db < wanted <= made.chosen.best.snr_db
    layers, whole = dict(made.chosen.best.setting.layers), made.chosen.whole
    assert 0 < len(layers) < len(graph.nodes)
    assert all(made.chosen.best.cost < trial.cost for trial in whole.values() if trial.snr_db >= wanted)
    assert f"{made.chosen.best.snr_db:.1f} dB" in str(made.chosen)
    assert "beside int8" in str(made.chosen)
    assert round(instructions(make_plan(made.graph, DSP).steps, DSP)) == made.chosen.best.instructions


def test_where_int8_keeps_raw_features_apart_auto_takes_it() -> None:
    """int8 in all layers would lose most features: what ``--quantize int8`` keeps float is no mixture of its own."""
    b, rng = Builder("raw"), np.random.default_rng(5)
    reach = np.geomspace(0.1, 1000, 16).astype(np.float32)
    x = b.input("x", "FLOAT32", (1, 16))
    y = b.op("FULLY_CONNECTED", [x, rng.normal(size=(24, 16)).astype(np.float32) / reach, None],
             fused_activation_function="RELU")  # fmt: skip
    y = b.op("FULLY_CONNECTED", [y, rng.normal(size=(4, 24)).astype(np.float32), None],
             fused_activation_function="NONE")  # fmt: skip
    data = {"x": reach * rng.normal(size=(60, 16)).astype(np.float32)}
    graph, how = b.graph([y]), {"calibration": data, "inference_type": "LAYERS"}
    made, int8 = (conversion(graph, quantize=precision, **how) for precision in ("auto", "int8"))
    assert made.chosen is not None
    assert made.chosen.met
    taken = [instructions(make_plan(each.graph, DSP).steps, DSP) for each in (made, int8)]
    assert taken[0] <= 1.15 * taken[1]
    assert round(taken[1]) == made.chosen.whole["int8"].instructions
    assert "beside int8" not in str(made.chosen)
    floats = conversion(graph, quantize="auto", min_snr=120, **how)
    assert [node.op for node in floats.graph.nodes] == [node.op for node in graph.nodes], "no scales for features"


def test_a_model_that_int8_suits_stays_in_it() -> None:
    graph = net()
    made = conversion(graph, quantize="auto", calibration=rows(), min_snr=15)
    assert made.chosen is not None
    assert (made.chosen.best.setting.precision, made.chosen.best.setting.layers) == ("int8", ())
    assert {t.type for t in (*made.graph.inputs, *made.graph.outputs)} == {"INT8"}
    assert made.chosen.best.snr_db == max(t.snr_db for t in [made.chosen.whole["int8"], made.chosen.best])


def test_labels_are_what_counts_where_there_are_any() -> None:
    _, (pictures, labels) = load()
    many = {"input": np.concatenate([pictures, 0.9 * pictures, 0.8 * pictures]), "labels": np.tile(labels, 3)}
    found = choose(float_model("digits"), many)
    assert found.goal.max_loss == 0.005
    assert found.best.loss <= 0.005
    assert found.best.setting.precision == "int8"
    few = choose(float_model("digits"), {"input": pictures[:40], "labels": labels[:40]})
    assert few.goal.max_loss is None, "20 answers cannot tell half a point"
    asked = choose(float_model("digits"), {"input": pictures[:60], "labels": labels[:60]}, max_loss=0.1, cost="flash")
    assert asked.best.loss <= 0.1
    assert asked.best.cost <= min(trial.cost for name, trial in asked.whole.items() if trial.loss <= 0.1)


@pytest.mark.parametrize("border", ["INT8", "INT16", "FLOAT32"])
def test_the_border_that_was_asked_for(border: str) -> None:
    made = conversion(net(), quantize="auto", calibration=rows(), inference_type=border)
    assert {t.type for t in (*made.graph.inputs, *made.graph.outputs)} == {border}


def test_rules_hold() -> None:
    own = Recipe((Rule(operator="FULLY_CONNECTED", precision="int16x8"),))
    made = conversion(net(), quantize="auto", calibration=rows(), recipe=own)
    assert {node.output.type for node in made.graph.nodes if node.op == "FULLY_CONNECTED"} == {"INT16"}


def test_one_sample_is_enough_to_choose_by() -> None:
    found = choose(net(), rows(1))
    assert found.met
    assert found.best.setting.precision == "int8"


@pytest.mark.parametrize("count", [2, 3])
def test_each_half_of_few_samples_may_be_one(count: int) -> None:
    """Not even the mean of what is wanted of one sample is known."""
    found = choose(net(), {"x": rows(count)["x"]}, min_snr=60, inference_type="INT8")
    assert not found.met


def test_where_the_goal_cannot_be_had_float_is_what_is_left() -> None:
    found = choose(net(), rows(), min_snr=200)
    assert found.best.setting.precision == "float"
    assert isinstance(found.best, Trial)
    made = conversion(net(), quantize="auto", calibration=rows(), min_snr=200)
    assert {t.type for node in made.graph.nodes for t in node.outputs} == {"FLOAT32"}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"quantize": "int8", "min_snr": 30.0}, "mean nothing without quantize='auto'"),
        ({"quantize": "auto", "bias_correction": True}, "tries what bias_correction"),
        ({"quantize": "auto", "calibration": iter([])}, "read more than once"),
        ({"quantize": "auto", "cost": "time"}, "'time' is no cost"),
        ({"quantize": "auto", "calibration": None}, "needs samples"),
    ],
)
def test_nonsense(how: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        conversion(net(), **{"calibration": rows(4), **how})


PRECISION = ("int8", "int16x8", "float")
WORTH = st.floats(0, 9)


@given(st.lists(st.tuples(*[st.tuples(WORTH, WORTH)] * 3), min_size=1, max_size=6), WORTH, WORTH, WORTH)
def test_mixes_are_the_cheapest_along_a_chain(costs: Any, price: float, element: float, each: float) -> None:
    parts = [
        _Part([], {p: c for p, (c, _) in zip(PRECISION, one, strict=True)},
              {p: n for p, (_, n) in zip(PRECISION, one, strict=True)},
              {j: 2 for j in (i - 1, i + 1) if 0 <= j < len(costs)}) for i, one in enumerate(costs)
    ]  # fmt: skip

    def total(labels: Any) -> float:
        own = sum(p.costs[label] + price * p.noises[label] for p, label in zip(parts, labels, strict=True))
        return own + sum(_crossing(a, b, 2, (element, each)) for a, b in pairwise(labels))

    best = min(map(total, product(PRECISION, repeat=len(parts))))
    assert total(_cheapest(parts, price, (element, each))) == pytest.approx(best)


def test_another_target_may_want_another_mix() -> None:
    """Without a unit for floats a float layer costs far more."""
    graph, data = net(), rows()
    with_unit, without = (choose(graph, data, target=target, cost="instructions") for target in (DSP, GENERIC))
    assert without.whole["float"].instructions > 10 * with_unit.whole["float"].instructions
    assert without.met
