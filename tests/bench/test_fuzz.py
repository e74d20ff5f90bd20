"""The fuzzer: planted faults are seen and shrunk, a seed gives the same models, a run over our own code is clean."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from needs import ROOT

from twinfer.bench.fuzz import engines, values
from twinfer.bench.fuzz.__main__ import main
from twinfer.bench.fuzz.generate import model
from twinfer.bench.fuzz.judge import Court, Finding
from twinfer.bench.fuzz.mutate import cases
from twinfer.bench.fuzz.save import differences, load, save
from twinfer.bench.fuzz.shrink import shrunk
from twinfer.bench.fuzz.worker import Died, Worker
from twinfer.bench.known.faults import FAULTS, excused
from twinfer.bench.known.flips import loosened
from twinfer.bench.known.meaning import Meaning
from twinfer.bench.known.model import Model, Trial, graph_of, trial_of
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Node
from twinfer.runtime.op import tensor
from twinfer.runtime.registry import operators
from twinfer.runtime.write.tflite import write

OPS = list(operators())

#: The seed of CI's run.
SEED = 20261123


def _model(seed: int, number: int) -> Model:
    return model(seed, number, OPS, OPS, Counter())


@pytest.fixture
def court(tmp_path: Path) -> Court:
    """A court over engines in this process, where a test can plant faults."""
    court = Court(str(tmp_path))
    court._ours = Here(engines.ours)  # type: ignore[assignment]
    return court


class Here(Worker):
    """A worker that is no process."""

    def ask(self, *question: object) -> object:
        return self._answer(*question)


def residual() -> Model:
    """Three operators over 4 x 6 values of int8; the last one is MAXIMUM."""
    b = Builder("residual")
    x = b.input("x", "INT8", (4, 6), 0.5, 3)
    y = b.op("RELU", [b.op("ADD", [x, x], fused_activation_function="NONE")])
    graph = b.graph([b.op("MAXIMUM", [y, x]), y])
    return Model("residual", graph, ((np.arange(24, dtype=np.int8).reshape(4, 6),),))


# -- models ------------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_models() -> None:
    for number in (0, 3, 11, 12, 23):
        one, other, third = _model(7, number), _model(7, number), _model(8, number)
        assert write(one.graph) == write(other.graph)
        assert [v.tobytes() for run in one.runs for v in run] == [v.tobytes() for run in other.runs for v in run]
        assert write(one.graph) != write(third.graph)


def test_every_operator_comes_in_turn_and_changes() -> None:
    singles = [_model(0, n) for n in range(4 * len(OPS) // 3 + 4) if n % 4 != 3]
    assert {m.graph.nodes[0].op for m in singles} == set(OPS)
    again = [_model(1, n) for n in range(4 * len(OPS) // 3 + 4) if n % 4 != 3]
    other = [a.graph.nodes[0].op for a, b in zip(singles, again, strict=True) if write(a.graph) != write(b.graph)]
    assert len(set(other)) > 0.9 * len(OPS)


def test_graphs_have_control_flow_and_state() -> None:
    seen = Counter(op for n in range(3, 400, 4) for op in _model(0, n).ops)
    assert min(seen[op] for op in ("IF", "WHILE", "VAR_HANDLE", "CALL_ONCE", "CONCATENATION")) > 2


def test_variables_keep_their_values_in_numpy() -> None:
    b = Builder("counter")
    (handle,) = b.node("VAR_HANDLE", [], [tensor((), "RESOURCE", name="h")], {"container": "", "shared_name": "v"})
    x = b.input("x", "FLOAT32", (2,))
    (old,) = b.node("READ_VARIABLE", [handle], [tensor((2,), name="old")])
    total = b.op("ADD", [x, old], fused_activation_function="NONE")
    b.node("ASSIGN_VARIABLE", [handle, total], [])
    meaning = Meaning(b.graph([total]))
    assert [meaning.run([np.ones(2, np.float32)])[0][0] for _ in range(3)] == [1, 2, 3]


# -- faults ------------------------------------------------------------------------------------------------------------


def test_a_planted_fault_is_found_and_shrunk(court: Court, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A MAXIMUM that is wrong where its result is above 5, in numpy."""
    right = operators()["MAXIMUM"]

    def wrong(node: Node, inputs: list[np.ndarray]) -> list[np.ndarray]:
        return [np.where(value > 5, value - 1, value).astype(value.dtype) for value in right.reference(node, inputs)]

    monkeypatch.setitem(operators(), "MAXIMUM", replace(right, reference=wrong))  # type: ignore[arg-type]
    (verdict,) = court.judged([residual()], "")
    (finding,) = verdict.findings
    assert finding.engine == "numpy"
    small = shrunk(court, finding)
    assert [node.op for node in small.model.graph.nodes] == ["MAXIMUM"]
    assert small.model.graph.outputs[0].size == 1
    path = save(small, tmp_path, seed=5)
    assert load(path).graph.nodes[0].op == "MAXIMUM"
    monkeypatch.undo()
    assert differences(path) == []


def test_a_planted_fault_of_emitted_code_is_found(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step is not emitted."""
    from twinfer.aot.print import emit as emitter

    right = emitter.RunFunctions
    monkeypatch.setattr(emitter, "RunFunctions", lambda plan, data, calls: right(plan, data, [*calls][:-1]))
    (verdict,) = court.judged([residual()], engines.QUICK)
    assert [finding.engine for finding in verdict.findings] == ["compiled"]


def test_a_saved_test_fails_until_the_fault_is_mended(tmp_path: Path) -> None:
    """The file is a test that pytest runs; here the model is right, so that it passes, and it would fail if not."""
    path = save(Finding(residual(), "numpy", 'at [0] "1" and 2'), tmp_path, seed=5)
    text = (tmp_path / f"test_{path.stem}.py").read_text()
    compile(text, "test", "exec")
    assert "--seed 5" in text
    damaged = np.load(path.with_suffix(".npz"))
    assert damaged["run0_0"].shape == (4, 6)


def test_a_process_that_dies_is_replaced() -> None:
    with Worker(_die_if) as worker:
        assert worker.ask(1) == 1
        with pytest.raises(Died, match="SIGABRT"):
            worker.ask(0)
        assert worker.ask(2) == 2


def _die_if(value: int) -> int:
    if not value:
        os.abort()
    return value


def test_excuses_are_for_one_peer_and_one_form() -> None:
    node = Node("ADD", (tensor((2,), "INT32"), tensor((2,), "INT32", name="b")), (tensor((2,), "INT32", name="y"),))
    plain = _fed(replace(node, options={"fused_activation_function": "NONE"}))
    clipped = _fed(replace(node, options={"fused_activation_function": "RELU"}))
    assert excused("tflm", clipped)
    assert not excused("tflm", plain)
    assert not excused("litert-ref", clipped)
    assert all(set(fault.ops.split()) <= set(OPS) and fault.why for fault in FAULTS)


def _fed(node: Node, *values: object) -> Model:
    """The node alone as a model with one run; without values it is fed with zeros."""
    graph = graph_of(node)
    pairs = zip(graph.inputs, values, strict=True) if values else ((t, np.zeros(t.shape)) for t in graph.inputs)
    return Model("one", graph, (tuple(np.array(v, t.dtype) for t, v in pairs),))


def test_excuses_look_at_values_of_the_run() -> None:
    """SLICE of five values: TFLM is excused where the box that comes at run time is not inside."""
    x, one = tensor((5,), "INT8", name="x"), tensor((1,), "INT32", name="begin")
    size = tensor((1,), "INT32", data=np.array([3]), name="size")
    node = Node("SLICE", (x, one, size), (tensor((3,), "INT8", name="y"),))
    for begin, outside in ((0, False), (2, False), (3, True), (-1, True)):
        assert bool(excused("tflm", _fed(node, [1, 2, 3, 4, 5], [begin]))) is outside


def test_fully_connected_is_excused_where_float64_rounds_otherwise() -> None:
    """9 times 0.5 / 3 is 1.5 in fixed point, and a little less in float64, because the scale 3 is a little more."""
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False}
    x, y = (
        tensor((1, 1), "INT8", 0.5, name="x"),
        tensor((1, 1), "INT8", float(np.nextafter(np.float32(3), 4)), name="y"),
    )
    w = tensor((1, 1), "INT8", 1.0, data=np.ones((1, 1)), name="w")
    excuses = {
        q: excused("litert-ref", _fed(Node("FULLY_CONNECTED", (x, w), (y,), options), [[q]])) for q in range(128)
    }
    assert excuses[9]
    assert sum(map(bool, excuses.values())) < 30


def test_a_flipped_code_is_within_the_tolerance_of_a_recurrent_operator() -> None:
    """Steps times the largest row of weights, in codes of 1/127; other nodes keep their tolerance."""
    case = next(c for c in operators()["RNN"].cases(np.random.default_rng(1)) if c.node.input(1).type == "INT8")
    rows = sum(abs(t.data.astype(int)).sum(1).max() * t.scale for t in case.node.inputs if t and t.type == "INT8")
    assert loosened(case.node, 1e-5) == pytest.approx(rows / 127)
    assert loosened(residual().graph.nodes[0], 0.0) == 0.0


@pytest.mark.deep
def test_what_cases_say_of_peers_is_known(tmp_path: Path) -> None:
    """A peer that is not the oracle of a case refuses it, agrees, or is excused."""
    court, unknown = Court(str(tmp_path)), []
    others = {"tflm": (), "litert": ("tflm",), "none": ("tflm", "litert-ref")}
    try:
        for op in OPS:
            for case in cases(op):
                unknown += [line for peer in others[case.oracle] for line in _unknown(court, trial_of(case), peer)]
    finally:
        court.close()
    assert unknown == []


def _unknown(court: Court, trial: Trial, peer: str) -> list[str]:
    graph = graph_of(trial.node)
    fed = values.runs(np.random.default_rng(5), graph, trial.given, 1)
    (verdict,) = court.judged([Model(trial.node.op, graph, fed, (peer,), trial.tolerance)], "")
    return [f"{trial.node}: {found.engine}: {found.detail}" for found in verdict.findings]


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_short_run_is_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is needed")
    status = main(["--seconds", "10", "--models", "24", "--seed", "4", "--out", str(tmp_path)])
    said = capsys.readouterr().out
    assert status == 0, said
    assert re.search(r"24 models in \d+ s", said)
    assert not list(tmp_path.iterdir())


@pytest.mark.deep
def test_hundreds_of_models(tmp_path: Path) -> None:
    """The same models every time, so that a submission fails only for what it changes.

    A slow machine tries fewer of them, and none more. Findings are in build/fuzz. Other seeds and longer runs are tried
    by hand.
    """
    command = [sys.executable, "-m", "twinfer.bench.fuzz", "--seconds", "120", "--seed", str(SEED), "--models", "480"]
    done = subprocess.run(
        [*command, "--out", str(ROOT / "build" / "fuzz")], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
