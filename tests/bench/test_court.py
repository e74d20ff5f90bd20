"""The fuzzer's court over engines that are made up: who is blamed, what is excused, what is shrunk, saved and told."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flows import Meaning as Walk
from flows import Sub
from rich.console import Console

from twinfer.aot.print.choice import share_all
from twinfer.bench.fuzz import engines, judge, run
from twinfer.bench.fuzz.engines import QUICK, USUAL, Question, Said
from twinfer.bench.fuzz.generate import model as random_model
from twinfer.bench.fuzz.judge import FLOAT_MAX, SATURATED, Court, Finding, Verdict, differs
from twinfer.bench.fuzz.run import BATCH, MOST_SAVED, Campaign
from twinfer.bench.fuzz.shrink import shrunk
from twinfer.bench.fuzz.tally import Tally
from twinfer.bench.fuzz.worker import Died, Worker
from twinfer.bench.known import meaning
from twinfer.bench.known.meaning import Meaning, witnessed
from twinfer.bench.known.model import Model
from twinfer.runtime.errors import ModelError, ToolError
from twinfer.runtime.graph import Graph, walk
from twinfer.runtime.registry import operators
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

F = np.float32


def _chain(*ops: str, shape: tuple[int, ...] = (1, 4), name: str = "m", runs: int = 1, **more: Any) -> Model:
    net = Sub(name)
    x = net.input(shape)
    for op in ops:
        x = net.op(op, [x])
    values = np.arange(1, 1 + runs * int(np.prod(shape)), dtype=F).reshape(runs, *shape)
    return Model(name, replace(net.graph([x]), name=name), tuple((value,) for value in values), **more)


def _asked(model: Model, runs: int = 1) -> Question:
    return Question(write(model.graph), model.runs, runs)


# -- what numpy says ---------------------------------------------------------------------------------------------------


def _counting(limit: int) -> Graph:
    """Doubles until the counter is at the limit; the input says which of two functions comes first."""
    test, body, twice, less = Sub("test"), Sub("body"), Sub("twice"), Sub("less")
    i, _ = test.input((1,), "INT32"), test.input((2,))
    check = test.graph([test.less(i, np.array([limit], np.int32))])
    i, x = body.input((1,), "INT32"), body.input((2,))
    turn = body.graph([body.add(i, np.array([1], np.int32)), body.mul(x, np.array([2, 2], F))])
    x = twice.input((2,))
    first = twice.graph([twice.add(x, x)])
    x = less.input((2,))
    other = less.graph([less.add(x, np.array([-1, -1], F)), x][:1])
    main = Sub("main")
    which, x = main.input((1,), "BOOL"), main.input((2,))
    (y,) = main.branch(which, 3, 4, [x], [x])
    start = main.constant([0], "INT32")
    return main.graph([main.loop(1, 2, [start, y])[1], start], check, turn, first, other)


def test_control_flow_in_numpy() -> None:
    graph, x = _counting(3), F([5, 7])
    for which, want in ((True, 8 * 2 * x), (False, 8 * (x - 1))):
        got = Meaning(graph).run([np.array([which]), x])
        assert [value.tolist() for value in got] == [want.tolist(), [0]]
    model = Model("m", graph, ((np.array([True]), x), (np.array([False]), x)))
    seen = Counter(node.op for node in witnessed(model))
    assert seen == {"IF": 2, "ADD": 2 + 2 * 3, "WHILE": 2, "LESS": 2 * 4, "MUL": 2 * 3}
    doubled = [node.constant(0).tolist() for node in witnessed(model) if node.op == "MUL"]
    assert doubled == [(f * start).tolist() for start in (2 * x, x - 1) for f in (1, 2, 4)]


def test_a_loop_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many turns as the limit are taken; then numpy fails, and nodes are witnessed as they are."""
    monkeypatch.setattr(meaning, "MOST_TURNS", 3)
    inputs = (np.array([True]), F([1, 1]))
    with pytest.raises(RuntimeError, match="more than 3 turns"):
        Meaning(_counting(3)).run(inputs)
    assert Meaning(_counting(2)).run(inputs)[0].tolist() == [8, 8]
    nodes = witnessed(Model("m", _counting(3), (inputs,)))
    assert Counter(node.op for node in nodes) == {"IF": 1, "WHILE": 1, "LESS": 1, "ADD": 3, "MUL": 1}


def test_composites_and_first_calls() -> None:
    """A composite is its function; what is called once is called once in all runs."""
    once, twice, main = Sub("once"), Sub("twice"), Sub("main")
    once.assign(once.handle(), np.array([10], F))
    x = twice.input((1,))
    function = twice.graph([twice.add(x, x)])
    value = main.input((1,))
    main.once(1)
    handle = main.handle()
    total = main.add(main.read(handle), value)
    main.assign(handle, total)
    end = main.op("STABLEHLO_COMPOSITE", [total], name="two", decomposition_subgraph_index=2)
    graph = main.graph([end, value], once.graph([]), function)
    said, walk = Meaning(graph), Walk(graph)
    for k, want in enumerate((22, 26, 32)):
        results = said.run([F([k + 1])])
        assert [v.tolist() for v in results] == [v.tolist() for v in walk.run([F([k + 1])])] == [[want], [k + 1]]


def test_random_control_flow_means_what_the_interpreter_gives() -> None:
    ops, compared = list(operators()), 0
    for number in range(11, 12 * 14, 12):
        model = random_model(5, number, ops, ops, Counter())
        assert model.name == f"control_{number}"
        said = engines.ours([_asked(model, 1 if model.stateful else len(model.runs))], "", os.devnull)[0]
        if said.outputs and not any(t.variable for graph in walk(model.graph) for t in graph.tensors):
            compared += 1
            known = [Walk(model.graph).run(model.runs[0])]
            assert not differs(said.outputs[:1], known, model.tolerance)
            assert not said.faults
            assert not {name for name in said.others if name != "numpy" or model.tolerance == 0}
    assert compared >= 7


# -- our engines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error", "refusal", "fault"),
    [
        ("make_plan", ModelError("not this one"), "ModelError: not this one", ""),
        ("make_plan", ZeroDivisionError("oh"), "", "planner"),
        ("read", KeyError("x"), "", "planner"),
        ("Meaning", ZeroDivisionError("oh"), "", "numpy"),
    ],
)
def test_what_our_engines_raise(
    name: str, error: Exception, refusal: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is none of ours; anything else is, with the place. The other model of the question has its answer."""
    bad, good, right = _chain("NEG"), _chain("ABS"), getattr(engines, name)
    wanted = write(bad.graph)

    def raises(first: Any, *rest: Any) -> Any:
        if first == wanted or (getattr(first, "nodes", None) and first.nodes[0].op == "NEG"):
            raise error
        return right(first, *rest)

    monkeypatch.setattr(engines, name, raises)
    wrong, fine = engines.ours([_asked(bad), _asked(good)], "", str(tmp_path))
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path)
    assert (wrong.refusal, [*wrong.faults]) == (refusal, [fault] if fault else [])
    if fault:
        line = wrong.faults[fault]
        assert line.startswith(f"{type(error).__name__}: ")
        assert "test_court.py" in line
        assert "in raises" in line
    assert [bool(wrong.outputs), wrong.others] == [fault == "numpy", {}]
    assert (fine.refusal, fine.faults, fine.others) == ("", {}, {})
    assert (fine.outputs[0][0] == np.abs(good.runs[0][0])).all()


def test_the_library_that_differs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One level of one target, or numpy; each run begins from fresh state and from rubbish."""
    right, seen = engines._outputs, list[str]()

    def outputs(session: Any, runs: Any) -> Any:
        results = right(session, runs)
        seen.append(session.plan.target.name)
        if len(seen) == 3:  # the first one is the interpreter's own
            results[1][0][0, 3] += 1
        return results

    monkeypatch.setattr(engines, "_outputs", outputs)
    (said,) = engines.ours([_asked(_chain("NEG", runs=2), 2)], "", str(tmp_path))
    levels = len(seen) - 1
    assert levels >= 2
    assert [*said.others] == [f"interpreter, {seen[2]}, level 1"]
    assert said.outputs[1][0][0, 3] == -8


@pytest.mark.parametrize("level", [QUICK, USUAL])
def test_the_model_that_does_not_compile(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Halves are tried; the others are compiled and compared; a refused model is not compiled at all."""
    tried = list[list[str]]()
    right = engines.make_plan

    def compile_plans(plans: Any, flags: Any, policy: Any) -> Any:
        tried.append([*plans])
        assert policy is (share_all if level == QUICK else None)
        assert level in flags
        (tmp_path / "twinfer").mkdir(exist_ok=True)
        (tmp_path / "twinfer" / f"{len(tried)}.so").write_text("")
        if any(plan.graph.nodes[0].op == "NEG" for plan in plans.values()):
            raise ToolError("cannot")
        return {name: Session(plan) for name, plan in plans.items()}

    def planned(graph: Graph, target: Any) -> Any:
        if graph.nodes[0].op == "EXP":
            raise ModelError("no")
        return right(graph, target)

    monkeypatch.setattr(engines, "make_plan", planned)
    monkeypatch.setattr(engines, "compile_plans", compile_plans)
    models = [_chain(op, runs=2) for op in ("ABS", "EXP", "SQUARE", "NEG", "SIN")]
    said = engines.ours([_asked(model) for model in models], level, str(tmp_path))
    assert [each.faults for each in said] == [{}, {}, {}, {"compiled": "does not compile: cannot"}, {}]
    assert [each.others for each in said] == [{}] * 5
    assert tried == [["m0", "m2", "m3", "m4"], ["m0", "m2"], ["m3", "m4"], ["m3"], ["m4"]]
    assert not [*(tmp_path / "twinfer").iterdir()]
    tried.clear()
    engines.ours([_asked(models[0]), _asked(models[1])], "", str(tmp_path))
    engines.ours([_asked(models[1])], level, str(tmp_path))
    assert tried == []


def test_the_same_bits() -> None:
    a, nan = [[F([1, 2])], [F([3, 4])]], np.array([0x7FC00000, 0xFFC00000], "<u4").view(F)
    assert engines.same(a, a)
    assert engines.same(a[:1], a)
    assert engines.same([[nan]], [[nan.copy()]])
    for other in ([[F([1, 2])], [F([3, 5])]], [[F([1, 2])], [F([[3, 4]])]], [[F([1, 2])], [np.array([3, 4])]]):
        assert not engines.same(a, other)
    assert not engines.same([[nan]], [[nan[::-1]]])
    assert not engines.same([[F([0.0])]], [[F([-0.0])]])
    assert not engines.same([[F([1]), F([1])]], [[F([1]), F([2])]])


@pytest.mark.parametrize(
    ("error", "says"), [(None, ""), (ToolError("no"), "no"), (RuntimeError(""), "RuntimeError"), (ValueError("v"), "v")]
)
def test_a_peer_keeps_nothing_over_questions(
    error: Exception | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is opened with the number of outputs, reset, and its memory is copied run by run."""
    told, memory = list[Any](), F([0])

    class Fake:
        def reset(self) -> None:
            told.append("reset")

        def __call__(self, inputs: Any) -> Any:
            if error:
                raise error
            memory[0] += inputs[0][0]
            return [memory]

    monkeypatch.setattr(engines, "open_peer", lambda *asked: told.append(asked) or Fake())
    result = engines.peer_outputs("tflm", Question(b"x", [[F([1])], [F([5])]], 1), 7)
    assert told == [("tflm", b"x", 7), "reset"]
    assert result == says if error else [v[0].tolist() for v in result] == [[1], [6]]  # type: ignore[index]


# -- processes ---------------------------------------------------------------------------------------------------------


def _odd(value: int) -> int:
    if value == 2:
        raise KeyError("two")
    if value == 3:
        os._exit(7)
    return value


def test_what_a_process_says_of_its_end() -> None:
    """An exception comes back and the process stays; an exit has its status; one that does not answer is ended."""
    with Worker(_odd) as worker:
        assert worker.ask(1) == 1
        first = worker._process
        with pytest.raises(RuntimeError, match=r"^KeyError: 'two'$"):
            worker.ask(2)
        assert worker.ask(5) == 5
        assert worker._process is first
        with pytest.raises(Died, match="exit status 7"):
            worker.ask(3)
        assert not first.is_alive()
    assert worker._process is None
    with Worker(_odd, 0.0) as slow, pytest.raises(Died, match="no answer within 0 s"):
        slow.ask(1)
    assert slow._process is None


def test_a_worn_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many answers as it may give, not one earlier."""
    started = list[int]()

    def start(self: Worker) -> None:
        started.append(self._answers)
        self._process, self._answers = "process", 0
        self._pipe = SimpleNamespace(send=lambda q: None, poll=lambda patience: True, recv=lambda: (True, "yes"))

    monkeypatch.setattr(Worker, "_start", start)
    worker = Worker(_odd)
    assert {worker.ask(1) for _ in range(801)} == {"yes"}
    assert started == [0, 400, 400]


# -- the court ---------------------------------------------------------------------------------------------------------


class Fake:
    """A worker that calls a function of the question."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.ask, self.close = answer, lambda: None


def _court(ours: Callable[..., Any], **peers: Any) -> Court:
    """Peers are what they answer: outputs, a refusal, or an error."""

    def peer(answer: Any) -> Fake:
        def ask(*question: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return Fake(ask)

    court = Court("folder")
    court._ours = Fake(ours)  # type: ignore[assignment]
    court._peers = {name.replace("_", "-"): peer(answer) for name, answer in peers.items()}  # type: ignore[misc]
    return court


@pytest.mark.parametrize("level", ["", QUICK])
@pytest.mark.parametrize("bad", [{0}, {4}, {1, 3}, set(range(5))])
def test_who_kills_the_process_is_blamed(bad: set[int], level: str) -> None:
    models = [_chain("ABS", name=f"m{i}") for i in range(5)]
    contents = [write(model.graph) for model in models]

    def ours(questions: Any, asked: str, cache: str) -> Any:
        assert (asked, cache) == (level, "folder")
        numbers = [contents.index(q.content) for q in questions]
        if bad & set(numbers):
            raise Died("SIGSEGV") if 0 in bad else RuntimeError("SIGSEGV")
        return [Said(refusal=f"no {n}") for n in numbers]

    verdicts = _court(ours).judged(models, level)
    assert [v.model for v in verdicts] == models
    engine = "compiled" if level else "interpreter"
    for i, verdict in enumerate(verdicts):
        assert [(f.engine, f.detail) for f in verdict.findings] == [(engine, "dies: SIGSEGV")] * (i in bad)
        assert verdict.refusal == ("" if i in bad else f"no {i}")


def test_what_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others keep their answers. numpy is asked for all runs, or for one if the model keeps something."""
    net = Sub("state")
    total = net.add(net.tensor((1,), variable=True), net.input((1,)))
    state = Model("state", net.graph([total]), ((F([1]),),) * 3)
    models, right, asked = [_chain("ABS", runs=2), _chain("NEG", runs=2), state], judge.write, list[Any]()

    def broken(graph: Graph) -> bytes:
        if graph.nodes[0].op == "ABS":
            raise ModelError("cannot be written")
        return right(graph)

    monkeypatch.setattr(judge, "write", broken)

    def ours(questions: Any, *rest: Any) -> Any:
        asked.extend((len(q.runs), q.numpy_runs) for q in questions)
        return [Said(refusal="a"), Said(refusal="b")]

    assert [v.refusal for v in _court(ours).judged(models, "")] == ["cannot be written", "a", "b"]
    assert asked == [(2, 2), (3, 1)]
    assert _court(ours).judged(models[:1], "")[0].refusal == "cannot be written"


ONE, OTHER = [[F([1.0, 2.0])]], [[F([1.0, 2.5])]]
BOTH = ("tflm", "litert-ref")
DIFFERENCE = "run 0, output 0: 1 of 2 elements; at [1] 2.0 and 2.5"


@pytest.mark.parametrize(
    ("judges", "peers", "findings", "peer"),
    [
        ((), {"tflm": OTHER, "litert_ref": OTHER}, [], ""),
        (BOTH, {"tflm": ONE, "litert_ref": OTHER}, [], "tflm"),
        (BOTH, {"tflm": "refuses", "litert_ref": ONE}, [], "litert-ref"),
        (BOTH, {"tflm": Died("x"), "litert_ref": RuntimeError("y")}, [], ""),
        (BOTH, {"tflm": Died("x"), "litert_ref": OTHER}, [("litert-ref", DIFFERENCE)], "litert-ref"),
        (BOTH, {"tflm": OTHER, "litert_ref": OTHER}, [("tflm", f"{DIFFERENCE}; LiteRT differs, too")], "tflm"),
        (BOTH, {"tflm": OTHER, "litert_ref": ONE}, [("tflm", f"{DIFFERENCE}; LiteRT agrees with us")], "tflm"),
        (("tflm",), {"tflm": OTHER, "litert_ref": "no"}, [("tflm", DIFFERENCE)], "tflm"),
    ],
)
def test_the_first_peer_that_runs_it_judges(judges: Any, peers: Any, findings: Any, peer: str) -> None:
    model = _chain("ABS", judges=judges)
    (verdict,) = _court(lambda *_: [Said(ONE)], **peers).judged([model], "")
    assert [(f.model, f.engine, f.detail) for f in verdict.findings] == [(model, *each) for each in findings]
    assert (verdict.peer, verdict.excuse) == (peer, "")
    (loose,) = _court(lambda *_: [Said(ONE)], **peers).judged([replace(model, tolerance=None)], "")
    assert (loose.findings, loose.peer) == ([], peer)


def test_excuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known fault of that peer, or floats at their end; only where there is a difference."""
    asked = list[str]()
    monkeypatch.setattr(judge, "excused", lambda peer, model: asked.append(peer) or "known")
    model, end = _chain("ABS", judges=("litert-ref",)), [[F([1, -FLOAT_MAX])]]
    for ours, theirs, excuse in ((ONE, ONE, ""), (ONE, OTHER, "known"), (end, ONE, SATURATED), (end, end, "")):
        (verdict,) = _court(lambda *_, said=ours: [Said(said)], litert_ref=theirs).judged([model], "")
        assert (verdict.excuse, verdict.findings, verdict.peer) == (excuse, [], "litert-ref")
    assert asked == ["litert-ref"]
    assert not judge.saturated([[F([1e38]), np.array([FLOAT_MAX], np.float64)]])


def test_our_own_faults() -> None:
    """Any other bits of ours, of numpy only what is beyond the tolerance; every engine has its finding."""
    nan = [[np.array([0x7FC00000, 1], "<u4").view(F)]]
    other = [[np.array([0xFFC00000, 1], "<u4").view(F)]]
    said = Said(
        nan, {"compiled": other, "numpy": other, "interpreter, avr, level 1": ONE}, faults={"planner": "KeyError"}
    )
    (verdict,) = _court(lambda *_: [said]).judged([_chain("ABS")], "")
    found = {f.engine: f.detail for f in verdict.findings}
    assert found.pop("interpreter, avr, level 1").startswith("run 0, output 0: 2 of 2 elements")
    assert found == {"planner": "KeyError", "compiled": "other bits"}
    near = Said(ONE, {"numpy": [[F([1, 2.01])]], "compiled": [[F([1, 2.01])]]})
    for tolerance, blamed in ((0.0, ["numpy", "compiled"]), (0.01, ["compiled"]), (None, ["compiled"])):
        (verdict,) = _court(lambda *_: [near]).judged([_chain("ABS", tolerance=tolerance)], "")
        assert [f.engine for f in verdict.findings] == blamed


@pytest.mark.parametrize(
    ("mine", "other", "tolerance", "says"),
    [
        (F([[1], [2]]), F([1, 2]), 0.0, ""),  # TFLM drops dimensions of one
        (F([[1], [2]]), F([2, 1]), 0.0, "2 of 2 elements; at [0, 0] 1.0 and 2.0"),
        (F([1, 2]), F([1, 2, 3]), 0.0, "float32[2] and float32[3]"),
        (F([1]), np.array([1]), 0.0, "float32[1] and int64[1]"),
        (F([np.nan, np.inf]), F([np.nan, np.inf]), 0.0, ""),
        (F([np.nan, 1]), F([1, np.nan]), 0.0, "2 of 2 elements; at [0] nan and 1.0"),
        (F([np.inf, 1]), F([-np.inf, 1]), 0.1, "1 of 2 elements; at [0] inf and -inf"),
        (F([100, 1]), F([100, 1.9]), 0.01, ""),  # of the largest
        (F([100, 1]), F([100, 2.1]), 0.01, "1 of 2 elements; at [1] 1.0 and 2.0"),
        (F([-100, np.inf]), F([-99.1, np.inf]), 0.01, ""),
        (F([0.1]), F([0.1 + 0.009]), 0.01, ""),  # of 1 at least
        (F([0.1]), F([0.1 + 0.011]), 0.01, "1 of 1 elements; at [0] 0.1"),
        (np.array([1, 2, 3], np.int8), np.array([1, 3, 4], np.int8), 0.5, "2 of 3 elements; at [1] 2 and 3"),
        (np.complex64([1j]), np.complex64([1.001j]), 0.01, ""),
    ],
)
def test_differences_in_words(mine: Any, other: Any, tolerance: float, says: str) -> None:
    got = differs([[mine, mine], [mine, mine]], [[mine, mine], [mine, other]], tolerance)
    assert got.startswith(f"run 1, output 1: {says}") if says else not got
    assert not differs([[mine]], [[other]], None)
    assert not differs([[mine]], [[mine], [other]], tolerance)


def test_findings_of_the_same_fault_have_the_same_key() -> None:
    one, two, net = _chain("ABS"), _chain("ABS", "NEG"), Sub("constant")
    fed = net.graph([net.op("ABS", [np.zeros(1, F)])])
    assert Finding(one, "interpreter, avr, level 1", "x").key == ("interpreter", "ABS", "FLOAT32")
    assert Finding(two, "numpy", "y").key == ("numpy", "graph", "FLOAT32")
    assert Finding(Model("m", fed, ((),)), "numpy", "y").key == ("numpy", "ABS", "")


# -- smaller -----------------------------------------------------------------------------------------------------------


class Where:
    """A court that finds a fault in every model for which ``wrong`` holds."""

    def __init__(self, wrong: Callable[[Model], bool], engine: str = "numpy") -> None:
        self.wrong, self.engine, self.levels = wrong, engine, set[str]()

    def judged(self, models: Any, level: str) -> list[Verdict]:
        self.levels.add(level)
        other = [Finding(models[0], "planner", "another fault")]
        return [Verdict(m, [*other, *([Finding(m, self.engine, "")] if self.wrong(m) else [])]) for m in models]


def _shrunk(wrong: Callable[[Model], bool], model: Model, engine: str = "numpy") -> tuple[Model, set[str]]:
    court: Any = Where(wrong, engine)
    found = shrunk(court, Finding(model, f"{engine.partition(',')[0]}, somewhere", ""))
    assert wrong(found.model)
    return found.model, court.levels


def test_only_the_operator_stays_in_the_smallest_shape() -> None:
    model, levels = _shrunk(lambda m: "NEG" in m.ops, _chain("ABS", "NEG", "SQUARE", shape=(3, 4), runs=3), "compiled")
    assert model.ops == ("NEG",)
    assert (len(model.runs), model.graph.inputs[0].shape, model.runs[0][0].tolist()) == (1, (1, 1), [[0]])
    assert levels == {QUICK}


def test_as_many_runs_as_are_needed() -> None:
    for need in (1, 2, 4):
        model, levels = _shrunk(lambda m, need=need: len(m.runs) >= need, _chain("ABS", runs=5), "interpreter, avr")
        assert len(model.runs) == need
        assert levels == {""}


@pytest.mark.parametrize("at", [0, 5, 11])
def test_only_the_value_stays(at: int) -> None:
    """One element of the second run, found wherever it is; the run before it stays, with zeros."""
    start = _chain("ABS", shape=(3, 4), runs=2)
    value = start.runs[1][0].reshape(-1)[at]
    model, _ = _shrunk(lambda m: any((v == value).any() for run in m.runs for v in run), start)
    assert [v.reshape(-1).tolist() for run in model.runs for v in run] == [[0], [value]]


def test_two_operators_and_a_shape_stay() -> None:
    """Nodes before and behind are cut off; the value between has what numpy gives it, half of it 0."""
    start = _chain("NEG", "ABS", "SQUARE", "NEG", shape=(2, 2))
    model, _ = _shrunk(lambda m: {"ABS", "SQUARE"} <= set(m.ops) and m.runs[0][0].min() < -3.5, start)
    assert [node.op for node in model.graph.nodes] == ["ABS", "SQUARE"]
    assert model.runs[0][0].reshape(-1).tolist() == [0, 0, -3, -4]


# -- campaigns ---------------------------------------------------------------------------------------------------------


def _campaign(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: Callable[[int], list[tuple[str, str]]], most: int | None,
    seconds: float = 1e9,
) -> tuple[Campaign, list[Any], list[Any]]:  # fmt: skip
    """A campaign over models of a number: what it judged (size and level), and what it saved."""
    judged, saved = list[Any](), list[Any]()

    class Bench:
        def __init__(self, cache: str) -> None:
            assert Path(cache).is_dir()

        def judged(self, models: Any, level: str) -> list[Verdict]:
            judged.append(([m.name for m in models], level))
            return [Verdict(m, [Finding(m, *each) for each in found(int(m.name))]) for m in models]

        def close(self) -> None:
            judged.append("closed")

    def model(seed: int, number: int, ops: Any, chosen: Any, refused: Counter[str]) -> Model:
        assert (seed, chosen, set(ops)) == (3, ["ABS"], set(operators()))
        refused["ABS"] += 1
        return _chain("ABS", "NEG", name=str(number))

    def save(finding: Finding, folder: Path, seed: int) -> None:
        assert (folder, seed) == (tmp_path, 3)
        saved.append((finding.engine, finding.model.ops))

    monkeypatch.setattr(run, "Court", Bench)
    monkeypatch.setattr(run, "model", model)
    monkeypatch.setattr(run, "shrunk", lambda court, f: replace(f, model=replace(_chain("NEG"), name=f.model.name)))
    monkeypatch.setattr(run, "save", save)
    told = list[Any]()
    campaign = Campaign(3, ["ABS"], tmp_path, lambda seconds, line: told.append((seconds, line)))
    campaign.run(seconds, most)
    return campaign, judged, [saved, told]


def test_every_sixth_batch_is_compiled_as_users_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The last batch is cut to the number that was asked for."""
    campaign, judged, (saved, told) = _campaign(monkeypatch, tmp_path, lambda n: [], 7 * BATCH + 5)
    assert judged.pop() == "closed"
    assert [level for _, level in judged] == [QUICK] * 5 + [USUAL] + [QUICK] * 2
    assert [name for names, _ in judged for name in names] == [str(n) for n in range(7 * BATCH + 5)]
    assert [len(names) for names, _ in judged] == [BATCH] * 7 + [5]
    assert (campaign.tally.models, campaign.findings, saved) == (7 * BATCH + 5, {}, [])
    assert [line for _, line in told] == [
        f"{min((i + 1) * BATCH, 7 * BATCH + 5)} models, 0 different" for i in range(8)
    ]
    assert campaign.tally.count("refused", "ABS") == 7 * BATCH + 5
    _, judged, _ = _campaign(monkeypatch, tmp_path, lambda n: [], None, 0.0)
    assert judged == ["closed"]


def test_a_finding_is_saved_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its key as it was found; the shrunk one counts, too, and is what is saved and told."""
    faults = {1: [("numpy", "a"), ("tflm", "b")], 2: [("numpy", "c")], 50: [("compiled", "d")]}
    campaign, _, (saved, told) = _campaign(monkeypatch, tmp_path, lambda n: faults.get(n, []), 60)
    assert saved == [("numpy", ("NEG",)), ("tflm", ("NEG",)), ("compiled", ("NEG",))]
    kinds = [("numpy", kind, "FLOAT32") for kind in ("graph", "NEG")]
    assert {key for key in campaign.findings if key[0] == "numpy"} == set(kinds)
    assert campaign.tally.summary().splitlines()[-3:] == ["1: numpy: a", "1: tflm: b", "50: compiled: d"]
    assert [line for _, line in told] == ["48 models, 4 different", "60 models, 6 different"]
    many = _campaign(monkeypatch, tmp_path, lambda n: [(f"engine{n}", "x")], 60)
    assert len(many[2][0]) == MOST_SAVED / 2


def test_the_tally() -> None:
    """Each column counts models by operator; what never ran is told, excuses by how often."""
    tally, models = Tally(["ABS", "NEG", "EXP", "SIN"]), [_chain("ABS"), _chain("NEG", "ABS", "NEG"), _chain("SIN")]
    tally.add(Verdict(models[0], peer="tflm"))
    tally.add(Verdict(models[1], peer="litert-ref", excuse="known"))
    tally.add(Verdict(models[1], [Finding(models[1], "tflm", "far")] * 2, peer="tflm"))
    tally.add(Verdict(models[2], refusal="no"))
    tally.refused["SIN"] += 5
    tally.seconds = 2.0
    tally.note(Finding(models[1], "tflm", "far"))
    rows = {"ABS": (3, 0, 2, 1, 1, 1), "NEG": (2, 0, 1, 1, 1, 1), "EXP": (0,) * 6, "SIN": (0, 6, 0, 0, 0, 0)}
    for op, counts in rows.items():
        names = ("ran", "refused", "tflm", "litert-ref", "excused", "different")
        assert tuple(tally.count(name, op) for name in names) == counts
    first, missing, excused, found = tally.summary().splitlines()
    assert (first, found) == ("4 models in 2 s: 2.0 per second", "m: tflm: far")
    assert missing.startswith("not reached: EXP, SIN, ")
    assert "WHILE" in missing
    assert excused == "excused 1 times: known"
    console = Console(file=io.StringIO(), width=120)
    console.print(tally.table())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [line.replace("│", " ").split() for line in shown.splitlines() if "│" in line]
    assert lines == [[op, *map(str, counts)] for op, counts in rows.items() if op != "EXP"]
