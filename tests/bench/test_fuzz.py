"""The fuzzer: planted faults are seen, who kills a process is blamed, a seed gives the same models, a run is clean."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flows import Sub
from needs import ROOT

from twinfer.bench.fuzz import engines
from twinfer.bench.fuzz.__main__ import main, random_model
from twinfer.bench.fuzz.engines import Answer, Engines, difference, excuse
from twinfer.bench.fuzz.model import Model, Trial, runs, trial_of
from twinfer.bench.fuzz.mutate import cases, tolerance_of
from twinfer.bench.fuzz.worker import Died, Worker
from twinfer.bench.known.faults import FAULTS
from twinfer.runtime.errors import ModelError, ToolError
from twinfer.runtime.graph import Node
from twinfer.runtime.op import tensor
from twinfer.runtime.registry import operators
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

OPS, F = list(operators()), np.float32

#: The seed of CI's run.
SEED = 20261123


def _model(seed: int, number: int) -> Model:
    return random_model(seed, number, OPS, Counter())


def _chain(*ops: str, name: str = "m", runs: int = 1, **more: Any) -> Model:
    net = Sub(name)
    x = net.input((1, 4))
    for op in ops:
        x = net.op(op, [x])
    values = np.arange(1, 1 + 4 * runs, dtype=F).reshape(runs, 1, 4)
    return Model(name, replace(net.graph([x]), name=name), tuple((value,) for value in values), **more)


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The engines of this process set it; it is set back."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Here(Worker):
    """A worker that is no process."""

    def ask(self, *question: object) -> object:
        return self._answer(*question)


def _engines(folder: str, ours: Callable[..., Any] = engines.our_outputs, **peers: Any) -> Engines:
    """Engines in this process, where a test can plant faults; peers are what they answer."""

    def peer(answer: Any) -> Callable[..., Any]:
        def ask(*question: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask

    every = Engines(folder)
    every._ours = Here(ours)
    every._peers = {name.replace("_", "-"): Here(peer(answer)) for name, answer in peers.items()}
    return every


# -- models ------------------------------------------------------------------------------------------------------------


def test_every_operator_comes_in_turn_and_a_seed_gives_the_same_models() -> None:
    numbers = [n for n in range(4 * len(OPS) // 3 + 4) if n % 4 != 3]
    one, again, other = ([_model(seed, n) for n in numbers] for seed in (0, 0, 1))
    assert {m.graph.nodes[0].op for m in one} == set(OPS)
    assert all(write(a.graph) == write(b.graph) for a, b in zip(one, again, strict=True))
    assert [v.tobytes() for m in one for run in m.runs for v in run] == [
        v.tobytes() for m in again for run in m.runs for v in run
    ]
    changed = {a.graph.nodes[0].op for a, b in zip(one, other, strict=True) if write(a.graph) != write(b.graph)}
    assert len(changed) > 0.9 * len(OPS)
    graphs = Counter(node.op for n in range(3, 200, 4) for node in _model(0, n).graph.nodes)
    assert min(graphs[op] for op in ("CONCATENATION", "RESHAPE", "QUANTIZE", "ADD")) > 2


def test_a_flipped_code_is_within_the_tolerance_of_a_recurrent_operator() -> None:
    """Steps times the largest row of weights, in codes of 1/127; other nodes keep their tolerance."""
    case = next(c for c in operators()["RNN"].cases(np.random.default_rng(1)) if c.node.input(1).type == "INT8")
    rows = sum(abs(t.data.astype(int)).sum(1).max() * t.scale for t in case.node.inputs if t and t.type == "INT8")
    assert tolerance_of(case.node, 1e-5) == pytest.approx(rows / 127)
    assert tolerance_of(_chain("ABS").graph.nodes[0], 0.0) == 0.0


# -- faults of ours ----------------------------------------------------------------------------------------------------


def test_a_planted_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In numpy; in one level of the interpreter, which differs in the second run alone; in emitted code."""
    right, real, count = operators()["NEG"], engines._run, Counter[str]()
    wrong = replace(right, reference=lambda node, inputs: [-inputs[0] + (inputs[0] > 3)])
    with monkeypatch.context() as planted:
        planted.setitem(operators(), "NEG", wrong)  # type: ignore[arg-type]
        (verdict,) = _engines(str(tmp_path)).compare([_chain("ABS", "NEG")], "")
    assert verdict.findings == {"numpy": "run 0, output 0: 1 of 4 elements; at [0, 3] -4.0 and -3.0"}

    def run(session: Session, question: engines.Question) -> Any:
        outputs = real(session, question)
        count[session.plan.target.name] += 1
        if count.total() == 3:  # the first one is the interpreter's own
            outputs[1][0][0, 3] += 1
        return outputs

    with monkeypatch.context() as planted:
        planted.setattr(engines, "_run", run)
        (verdict,) = _engines(str(tmp_path)).compare([_chain("NEG", runs=2)], "")
    assert [name.endswith("level 1") for name in verdict.findings] == [True]
    from twinfer.aot.print import emit as emitter

    functions = emitter.RunFunctions
    monkeypatch.setattr(emitter, "RunFunctions", lambda plan, data, calls: functions(plan, data, [*calls][:-1]))
    if shutil.which("gcc"):
        (verdict,) = _engines(str(tmp_path)).compare([_chain("ABS", "NEG")], engines.QUICK)
        assert [*verdict.findings] == ["compiled"]


@pytest.mark.parametrize(
    ("name", "error", "refusal", "fault"),
    [
        ("make_plan", ModelError("not this one"), "ModelError: not this one", ""),
        ("make_plan", ZeroDivisionError("oh"), "", "planner"),
        ("read", KeyError("x"), "", "planner"),
        ("numpy_values", ZeroDivisionError("oh"), "", "numpy"),
        ("write", ModelError("no file"), "no file", ""),
        ("compile_plans", ToolError("cannot"), "", "compiled"),
    ],
)
def test_what_our_engines_raise(
    name: str, error: Exception, refusal: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is none of ours; anything else is, with the place. Other models have their answers."""
    models, right = [_chain("NEG", name="bad"), _chain("ABS")], getattr(engines, name)
    wanted = write(models[0].graph)

    def raises(first: Any, *rest: Any, **more: Any) -> Any:
        plans = first.values() if isinstance(first, dict) else [first]
        nodes = [n for each in plans for n in getattr(getattr(each, "graph", each), "nodes", ())]
        if first == wanted or any(node.op == "NEG" for node in nodes):
            raise error
        return {key: Session(plan) for key, plan in first.items()} if name == "compile_plans" else right(first, *rest)

    monkeypatch.setattr(engines, name, raises)
    wrong, fine = _engines(str(tmp_path)).compare(models, engines.QUICK if fault == "compiled" else "")
    assert (wrong.refusal, [*wrong.findings]) == (refusal, [fault] if fault else [])
    assert not fault or str(error) in wrong.findings[fault]
    assert (fine.refusal, fine.findings) == ("", {})


@pytest.mark.parametrize("bad", [{0}, {1, 3}])
@pytest.mark.parametrize("level", ["", engines.QUICK])
def test_who_kills_the_process_is_blamed(bad: set[int], level: str) -> None:
    models = [_chain("ABS", name=f"m{i}") for i in range(4)]
    contents = [write(model.graph) for model in models]

    def ours(questions: Any, asked: str, cache: str) -> Any:
        assert (asked, cache) == (level, "folder")
        numbers = [contents.index(question.content) for question in questions]
        if bad & set(numbers):
            raise Died("SIGSEGV")
        return [Answer(refusal=f"no {n}") for n in numbers]

    for i, verdict in enumerate(_engines("folder", ours).compare(models, level)):
        assert verdict.findings == ({"compiled" if level else "interpreter": "dies: SIGSEGV"} if i in bad else {})
        assert verdict.refusal == ("" if i in bad else f"no {i}")


def _answer(value: int) -> int:
    if value == 2:
        raise KeyError("two")
    if value == 3:
        os._exit(7)
    if value == 4:
        os.abort()
    return value


def test_a_process_that_dies_is_replaced() -> None:
    """An exception comes back and the process stays; one that dies or hangs is another one for the next question."""
    worker = Worker(_answer)
    assert worker.ask(1) == 1
    first = worker._process
    with pytest.raises(RuntimeError, match=r"^KeyError: 'two'$"):
        worker.ask(2)
    assert (worker.ask(5), worker._process) == (5, first)
    for value, how in ((3, "exit status 7"), (4, "SIGABRT")):
        with pytest.raises(Died, match=how):
            worker.ask(value)
    assert worker.ask(2 * 3) == 6
    worker.close()
    slow = Worker(_answer, 0.0)
    with pytest.raises(Died, match="no answer within 0 s"):
        slow.ask(1)
    assert slow._process is None


# -- peers -------------------------------------------------------------------------------------------------------------

ONE, OTHER = [[F([1.0, 2.0])]], [[F([1.0, 2.5])]]
DIFFERENCE = "run 0, output 0: 1 of 2 elements; at [1] 2.0 and 2.5"


@pytest.mark.parametrize(
    ("judges", "tflm", "litert", "findings", "peer"),
    [
        ("", OTHER, OTHER, {}, ""),
        ("tflm litert-ref", ONE, OTHER, {}, "tflm"),
        ("tflm litert-ref", "refuses", ONE, {}, "litert-ref"),
        ("tflm litert-ref", Died("x"), RuntimeError("y"), {}, ""),
        ("tflm litert-ref", Died("x"), OTHER, {"litert-ref": DIFFERENCE}, "litert-ref"),
        ("tflm", OTHER, ONE, {"tflm": DIFFERENCE}, "tflm"),
    ],
)
def test_the_first_peer_that_runs_it_judges(judges: str, tflm: Any, litert: Any, findings: Any, peer: str) -> None:
    every = _engines("", lambda *_: [Answer(ONE)], tflm=tflm, litert_ref=litert)
    for tolerance in (0.0, None):
        model = _chain("ABS", judges=tuple(judges.split()), tolerance=tolerance)
        (verdict,) = every.compare([model], "")
        assert (verdict.findings, verdict.peer) == ({} if tolerance is None else findings, peer)


def test_differences_in_words() -> None:
    a, b = F([[1], [2]]), F([1, 2])
    table = [
        (a, b, 0.0, ""),  # TFLM drops dimensions of one
        (a, F([2, 1]), 0.0, "2 of 2 elements; at [0, 0] 1.0 and 2.0"),
        (b, F([1, 2, 3]), 0.0, "float32[2] and float32[3]"),
        (F([1]), np.array([1]), 0.0, "float32[1] and int64[1]"),
        (F([np.nan, np.inf]), F([np.nan, np.inf]), 0.0, ""),
        (F([np.inf, 1]), F([-np.inf, 1]), 0.1, "1 of 2 elements; at [0] inf and -inf"),
        (F([100, 1]), F([100, 1.9]), 0.01, ""),  # of the largest
        (F([100, 1]), F([100, 2.1]), 0.01, "1 of 2 elements; at [1] 1.0 and 2.0"),
        (F([0.1]), F([0.109]), 0.01, ""),  # of 1 at least
        (F([0.1]), F([0.111]), 0.01, "1 of 1 elements; at [0] 0.1"),
    ]
    for mine, other, tolerance, says in table:
        got = difference([[mine, mine], [mine, mine]], [[mine, mine], [mine, other]], tolerance)
        assert got.startswith(f"run 1, output 1: {says}") if says else not got


def _fed(node: Node, *values: object) -> Model:
    """The node alone as a model with one run; without values it is fed with zeros."""
    graph = Trial(node).graph
    pairs = zip(graph.inputs, values, strict=True) if values else ((t, np.zeros(t.shape)) for t in graph.inputs)
    return Model("one", graph, (tuple(np.array(v, t.dtype) for t, v in pairs),))


def test_excuses_are_for_one_peer_form_and_value() -> None:
    """An activation; SLICE whose box comes at run time and is not inside; outputs that are the largest floats."""
    pair = tensor((2,), "INT32"), tensor((2,), "INT32", name="b")
    add = Node("ADD", pair, (tensor((2,), "INT32", name="y"),))
    plain, clipped = (_fed(replace(add, options={"fused_activation_function": name})) for name in ("NONE", "RELU"))
    assert [bool(excuse(*each, ONE)) for each in (("tflm", clipped), ("tflm", plain), ("litert-ref", clipped))] == [
        True, False, False,
    ]  # fmt: skip
    x, one = tensor((5,), "INT8", name="x"), tensor((1,), "INT32", name="begin")
    size = tensor((1,), "INT32", data=np.array([3]), name="size")
    node = Node("SLICE", (x, one, size), (tensor((3,), "INT8", name="y"),))
    for begin, outside in ((0, False), (2, False), (3, True), (-1, True)):
        assert bool(excuse("tflm", _fed(node, [1, 2, 3, 4, 5], [begin]), ONE)) is outside
    assert excuse("tflm", plain, [[F([1, -engines.FLOAT_MAX])]])
    assert all(set(fault.ops.split()) <= set(OPS) and fault.why for fault in FAULTS)


@pytest.mark.deep
def test_what_cases_say_of_peers_is_known(tmp_path: Path) -> None:
    """A peer that is not the oracle of a case refuses it, agrees, or is excused."""
    every, unknown = Engines(str(tmp_path)), []
    others = {"tflm": (), "litert": ("tflm",), "none": ("tflm", "litert-ref")}
    try:
        for trial, peer in ((trial_of(case), peer) for op in OPS for case in cases(op) for peer in others[case.oracle]):
            fed = runs(np.random.default_rng(5), trial.graph, trial.given)[:1]
            (verdict,) = every.compare([Model(trial.node.op, trial.graph, fed, (peer,), trial.tolerance)], "")
            unknown += [f"{trial.node}: {engine}: {text}" for engine, text in verdict.findings.items()]
    finally:
        every.close()
    assert unknown == []


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_short_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Clean; with a fault its model is saved and its number told, which finds it again."""
    arguments = ["--seconds", "10", "--models", "4", "--op", "NEG", "--out", str(tmp_path)]
    command = "twinfer.bench.fuzz.__main__"
    monkeypatch.setattr(f"{command}.Engines", lambda cache: _engines(cache, tflm="no", litert_ref="no"))
    monkeypatch.setattr(f"{command}.QUICK", "")
    assert main(arguments) == 0
    assert re.search(r"^4 models in \d+ s, 0 differ", capsys.readouterr().out)
    assert not list(tmp_path.iterdir())
    right = operators()["NEG"]
    wrong = replace(right, reference=lambda node, inputs: [~np.asarray(inputs[0]).view(np.int8)])
    monkeypatch.setitem(operators(), "NEG", wrong)  # type: ignore[arg-type]
    assert main(arguments) == 1
    first = re.search(r"--seed 0 --first (\d), (\w+): numpy: ", capsys.readouterr().out)
    assert first
    assert {path.stem for path in tmp_path.glob("*.npz")} >= {first[2]} == {f"neg_{first[1]}"}
    assert main([*arguments, "--first", first[1], "--models", "1"]) == 1


@pytest.mark.deep
def test_hundreds_of_models() -> None:
    """The same models every time, so that a submission fails only for what it changes.

    A slow machine tries fewer of them, and none more. Findings are in build/fuzz. Other seeds and longer runs are tried
    by hand.
    """
    command = [sys.executable, "-m", "twinfer.bench.fuzz", "--seconds", "120", "--seed", str(SEED), "--models", "480"]
    done = subprocess.run(
        [*command, "--out", str(ROOT / "build" / "fuzz")], capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
