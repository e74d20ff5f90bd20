"""Figures of runs that are made up: of several outputs, samples and programs of which one differs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny
from flows import Sub

from twinfer.aot.build.runner import Result
from twinfer.aot.build.sizes import Sizes, Symbol
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.explain import on_host as start
from twinfer.bench.explain import on_target
from twinfer.bench.lab import prices
from twinfer.bench.measure import compare, embedded, price
from twinfer.bench.models.source import Source, load
from twinfer.bench.models.verify import Samples
from twinfer.bench.peers import engines
from twinfer.bench.peers.engines import Peer, PeerModel
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.choice import default_policy
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import POISONS

M0, M4 = find("cortex-m0"), find("cortex-m4")


def two_outputs() -> Graph:
    net = Sub("two")
    x = net.input((1, 4))
    return net.graph([net.op("ABS", [x]), net.op("NEG", [x])])


@pytest.mark.parametrize("wrong", [None, (0, 0, 1), (5, 2, 0), (7, 1, 1)])
@pytest.mark.parametrize("guard", [False, True])
def test_a_proof_on_two_cores(wrong: tuple[int, int, int] | None, guard: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both modes by layers and by rows on each, planned so; every sample over all rubbish, held against its own
    outputs. What cannot be built is a note of that program alone."""
    source, built, shares = Source("two", two_outputs()), list[Any](), list[float]()
    samples = Samples(3, 11)
    inputs = [random_inputs(source.graph, 11 + i) for i in range(3)]

    def build(project: Any, card: Any) -> int:
        built.append((card, project.mode, project.plan.options, project.plan.target))
        if card is M0 and project.mode == "compiled":
            raise ToolError("too large")
        return len(built) - 1

    def run_jobs(program: int, jobs: Any, count: bool) -> Any:
        assert [job.inputs[0].tobytes() for job in jobs] == [own[0].tobytes() for own in inputs for _ in POISONS]
        assert not count
        results = [[np.abs(job.inputs[0]), -job.inputs[0]] for job in jobs]
        if wrong is not None and program == wrong[0]:
            results[wrong[1] * len(POISONS) + 1][wrong[2]][0, 2] += 1
        return [SimpleNamespace(outputs=each) for each in results]

    monkeypatch.setattr(embedded, "build", build)
    monkeypatch.setattr(embedded, "run_jobs", run_jobs)
    options = Options("size", weights="plain", guard=guard)
    proof = embedded.verify_on(source, [M4, M0], options, samples, shares.append)
    ways = ["layers"] if guard else ["layers", "rows"]
    runs = list(itertools.product((M4, M0), ("interpreted", "compiled"), ways))
    assert [(card, mode, how.memory, how.optimize, how.weights, how.guard) for card, mode, how, _ in built] == [
        (*run, "size", "plain", guard) for run in runs]  # fmt: skip
    assert [target for *_, target in built] == [card.target for card, *_ in runs]
    names = [f"{mode} {memory} on {card.name}" for card, mode, memory in runs]
    assert list(proof.others) == names
    assert proof.notes == {name: "too large" for name in names if name.startswith("compiled") and "m0" in name}
    assert shares == [k / len(runs) for k in range(len(runs))]
    at = None if wrong is None or wrong[0] >= len(runs) or names[wrong[0]] in proof.notes else wrong
    found = [(line.tensor, engine, d.sample, d.element) for line, engine, d in proof.faults()]
    assert found == ([] if at is None else [(source.graph.outputs[at[2]], names[at[0]], at[1], (0, 2))])
    assert [line.tensor.name for line in proof.lines] == [t.name for t in source.graph.outputs]
    assert proof.samples == 3


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_what_each_layer_would_cost_the_other_way(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that shares beside one with a body of its own, and the reverse; code and params count, weights do not."""
    plan = make_plan(tiny.dense().graph, M4.target, Options(mode=mode))
    project = emit(plan, "m", policy=lambda plan: frozenset({1}))
    kernel = plan.steps[0].call.kernel

    def sized(base: int) -> Sizes:
        own = [Symbol(f"m_{i}_{group}", group, size + base + i, i, i) for i in range(3)
               for group, size in (("code", 100), ("params", 10), ("weights", 5000))]  # fmt: skip
        return Sizes((*own, Symbol(f"m_{kernel}", "code", 300 + base, 2)), 64)

    def build_steps(form: Any, card: Any, inputs: Any) -> price.Build:
        own = not form.shared
        assert form.shared == (frozenset() if own else frozenset(range(3)))
        return price.Build([7000 + i if own else 8000 + i for i in range(3)], sized(1000 if own else 2000))

    monkeypatch.setattr(price, "build_steps", build_steps)
    told = price.priced_layers(project, M4, [], Result((), (10, 20, 30)), sized(0))
    assert told["instances"] == {kernel: 302}
    layers: Any = told["layers"]
    assert [layer["instructions"] for layer in layers] == [10, 20, 30]
    assert [layer["code_bytes"] for layer in layers] == [110 + 4 * i for i in range(3)]
    if mode == "interpreted":
        assert all("shared" not in layer for layer in layers)
        return
    assert [layer["shared"] for layer in layers] == [False, True, False]
    assert [layer["other_instructions"] for layer in layers] == [8000, 7001, 8002]
    assert [layer["other_code_bytes"] for layer in layers] == [4110, 2114, 4118]


def test_prices_are_means_over_bodies_and_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models with forms in common: each column by what it is counted per, the forms in order."""
    every = [
        prices.Sample("tw_b", 2, 500, 900, (300, 700), 8000, 1000, 50_000, 40_000),
        prices.Sample("tw_a", 1, 50, 90, (30, 70), 100, 0, 10, 0),
        prices.Sample("tw_b", 3, 1000, 1100, (100, 500), 2000, 3000, 10_000, 20_000),
    ]
    head, body = prices.table(every).split("[forms]\n")
    assert head == prices.HEAD
    assert body.splitlines() == [
        "tw_a = [50, 90, 30, 70, 100.0, 10.00]",
        f"tw_b = [{1500 / 5:.0f}, {2000 / 2:.0f}, {400 / 5:.0f}, {1200 / 2:.0f}, {10_000 / 4000:.1f}, 1.00]",
    ]


def test_a_sample_of_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """What specialising saves of instructions and costs of bytes, summed over the layers of a form."""
    plan = tiny.dense()
    steps = range(len(plan.steps))
    made = make_plan(plan.graph, M4.target, Options(optimize="speed", memory="layers"))
    kernel = made.steps[0].call.kernel

    def sized(own: int, small: int) -> Sizes:
        symbols = [Symbol(f"m_{i}_code", "code", own + i, 0, i) for i in steps]
        return Sizes((*symbols, Symbol(f"dense_{kernel}", "code", 800 - small)), 0)

    def build_steps(project: Any, card: Any, inputs: Any) -> price.Build:
        own = not project.shared
        return price.Build([(500 if own else 900) + 10 * i for i in steps], sized(300 if own else 40, 0))

    monkeypatch.setattr(prices, "build_steps", build_steps)
    monkeypatch.setattr(prices, "sizes", lambda project, card: sized(20 if project.shared else 200, 100))
    (sample,) = prices.samples(Source("dense", plan.graph), "cortex-m4")
    assert sample.form == kernel
    assert (sample.body_bytes, sample.instance) == (3 * 260, 800)
    assert sample.small == (3 * 180, 700)
    assert (sample.saved, sample.instructions) == (3 * 400, 3 * 500 + 30)
    assert (sample.outputs, sample.work) == (3 * 6, 3 * (36 + 4 * (6 + 6)))
    assert sample.bodies == 2  # the last two layers have the same params


@pytest.mark.parametrize("fails", [None, 0, 2])
def test_the_rows_of_a_core(fails: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option's own plan, known before it is built; one that fails has its error alone, and no estimate."""
    source, built, shares = load("digits_int8"), list[Any](), list[float]()
    options = [Options("speed", mode="interpreted"), Options("size", "lut", "start"), Options("speed", memory="rows")]
    options.append(Options("size", "huffman", "layer"))  # decoded in the arena
    inputs = random_inputs(source.graph, 5)
    want = embedded.host_outputs(source.graph, inputs)

    def build(project: Any, card: Any) -> Any:
        built.append(project)
        if len(built) - 1 == fails:
            raise ToolError("it is too large")
        return project

    def run_jobs(firmware: Any, jobs: Any) -> list[Any]:
        assert [(job.fresh, job.paint, job.by_step, job.inputs[0].tobytes()) for job in jobs] == [
            (True, paint, False, inputs[0].tobytes()) for paint in (False, True)]  # fmt: skip
        return [SimpleNamespace(counts=[9], outputs=want, stack_bytes=i, cycles=()) for i in range(2)]

    monkeypatch.setattr(embedded, "build", build)
    monkeypatch.setattr(embedded, "run_jobs", run_jobs)
    monkeypatch.setattr(embedded, "sizes", lambda *_: Sizes((Symbol("a", "code", 5),), 66))
    monkeypatch.setattr(embedded, "firmware_bound", lambda firmware: SimpleNamespace(bytes=None))
    monkeypatch.setattr(embedded, "estimate_of", lambda project, card, given: {"estimate": {"of": project.mode}})
    monkeypatch.setattr(embedded, "tflm_rows", lambda source, core: [{"recorded": source.name, "target": core}])
    *rows, peer = embedded.measure_on(source, M4, embedded.Measurement(options, 5, cycles=True), shares.append)
    assert peer == {"recorded": "digits_int8", "target": "cortex-m4"}
    assert shares == [0, 1 / 4, 2 / 4, 3 / 4]
    for i, (row, how) in enumerate(zip(rows, options, strict=True)):
        plan = make_plan(source.graph, M4.target, how)
        assert (row["engine"], row["optimize"], row["weights"], row["decode"], row["memory"]) == (
            how.mode, how.optimize, how.weights, how.decode, how.memory)  # fmt: skip
        assert (row["model"], row["target"], row["board"]) == ("digits_int8", "cortex-m4", M4.machine)
        assert (row["operators"], row["macs"]) == (len(source.graph.nodes), sum(s.call.macs for s in plan.steps))
        arenas = [
            make_plan(source.graph, M4.target, replace(how, memory=way)).arena_bytes for way in ("layers", "rows")
        ]
        assert [row["layers_arena_bytes"], row["rows_arena_bytes"]] == arenas
        names = ("arena_bytes", "lower_bound_bytes", "constant_bytes")
        assert [row[name] for name in names] == [getattr(plan, name) for name in names]
        figures = {name: row[name] for name in ("instructions", "code_bytes", "ram_bytes", "stack_bytes", "same_bits")}
        if i == fails:
            assert row["error"] == "it is too large"
            assert set(figures.values()) == {None}
            assert "estimate" not in row
        else:
            assert list(figures.values()) == [9, 5, 66, 1, True]
            assert row["estimate"] == {"of": how.mode}
            assert "error" not in row
    assert len({row["constant_bytes"] for row in rows}) == 4
    assert len({row["layers_arena_bytes"] for row in rows}) > 1


@pytest.mark.parametrize("error", [ToolError, ValueError, RuntimeError])
@pytest.mark.parametrize("aborts", [False, True])
def test_a_peer_that_cannot_run_the_model(error: Any, aborts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row says why, in its own words, and has no figures; those of others are whole. One that may end the process
    is tried in another process first."""
    tried = []

    def fails(name: str, *_: Any) -> Any:
        tried.append(name)
        raise error("not [this] one")

    def opened(name: str, content: bytes, count: int) -> Any:
        return fails(name) if name == "tflm" else PeerOfOurs(content)

    class PeerOfOurs:
        def __init__(self, content: bytes) -> None:
            self.model = Interpreter(model_content=content)
            self.model.allocate_tensors()
            self.invoke = self.model.invoke

        def __call__(self, inputs: Sequence[Array]) -> list[Array]:
            self.model.session.feed(inputs)
            self.model.invoke()
            return self.model.session.outputs()

    monkeypatch.setattr(compare, "find", lambda name: SimpleNamespace(aborts=aborts and name == "tflm"))
    monkeypatch.setattr(compare, "isolate", fails)
    monkeypatch.setattr(compare, "open_peer", opened)
    rows = compare.compare(Source("two", two_outputs()), compare.Comparison(("tflm", "litert"), rounds=1))
    assert [row["engine"] for row in rows] == ["interpreted", "compiled", "tflm", "litert"]
    assert rows[2]["error"] == "not [this] one"
    assert {rows[2][key] for key in ("min_us", "median_us", "ratio", "rounds", "same_bits", "max_difference")} == {None}
    assert all(row["same_bits"] and row["rounds"] == 1 and "error" not in row for row in (*rows[:2], rows[3]))
    assert tried == ["tflm"]


# -- explain -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, 0, 2, 3])
def test_the_programs_of_a_ledger(wrong: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is printed as its step says, with the figures of its own run and image; causes are their differences."""
    source, built, shares = Source("dense", tiny.dense().graph), list[Any](), list[float]()
    plan = make_plan(source.graph, M4.target)
    kernel = plan.steps[0].call.kernel
    want = embedded.host_outputs(source.graph, random_inputs(source.graph, 4))

    def build(project: Any, card: Any) -> int:
        built.append(project)
        return len(built) - 1

    def run_jobs(program: int, jobs: Any) -> list[Any]:
        assert [(job.by_step, job.inputs[0].tobytes()) for job in jobs] == [
            (by_step, random_inputs(source.graph, 4)[0].tobytes()) for by_step in (False, True)]  # fmt: skip
        off = program == wrong
        outputs = tuple(value + np.asarray(off, value.dtype) for value in want)
        return [SimpleNamespace(counts=[1000 - 100 * program], outputs=outputs),
                SimpleNamespace(counts=[300 - 10 * program - i for i in range(3)], outputs=())]  # fmt: skip

    def sizes(project: Any, card: Any) -> Sizes:
        n = len(built) - 1
        others = [("dense_run", 50), (f"dense_{kernel}", 900), ("dense_loop", 70)]
        symbols = [*(Symbol(name, "code", size) for name, size in others), Symbol("memset", "library", 9)]
        symbols += [Symbol("dense_table", "params", 60, 4), Symbol("heap", "bss", 8 * n)]
        symbols += [Symbol("dense_0_weights", "weights", 500, 0, 0), Symbol("dense_1_params", "params", 33, 0, 1)]
        return Sizes(tuple(symbols), 100 + n)

    monkeypatch.setattr(on_target, "build", build)
    monkeypatch.setattr(on_target, "run_jobs", run_jobs)
    monkeypatch.setattr(on_target, "sizes", sizes)
    got = on_target.ledger_on(source, M4, seed=4, progress=shares.append)
    every, none = frozenset(range(3)), frozenset[int]()
    forms = [("interpreted", every), ("compiled", every), ("compiled", none), ("compiled", default_policy(plan))]
    assert [(project.mode, project.shared) for project in built] == forms
    assert [(line.interpreted, line.compiled) for line in got.lines[:3]] == [(300 - i, 270 - i) for i in range(3)]
    assert all(line.causes == dict.fromkeys(("dispatch_c", "parameters", "sharing"), 10) for line in got.lines[:3])
    rest = [1000 - 100 * k - 3 * (300 - 10 * k) + 3 for k in range(4)]
    assert (got.lines[3].interpreted, got.lines[3].compiled) == (rest[0], rest[3])
    assert (got.total.interpreted, got.total.compiled) == (1000, 700)
    assert {kind: (line.interpreted, line.compiled) for kind, line in got.bytes.items()} == {
        "flash": (1626, 1626), "RAM": (100, 103 + 24)}  # fmt: skip
    assert got.start.interpreter_bytes == 60 + 4 + 70
    assert (got.same_bits, got.unit, got.target, got.model) == (wrong is None, "instructions", "cortex-m4", "dense")
    assert shares == [0, 0.25, 0.5, 0.75]


def test_a_start_has_the_medians_of_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every part on its own, in ms, whichever round it is of; the compiler has run before."""
    rng, now = np.random.default_rng(0), [0]
    took = {"interpreted": rng.integers(1, 10**7, (5, 4)), "compiled": rng.integers(1, 10**7, (5, 2))}
    order = [int(n) for i in range(5) for side in ("interpreted", "compiled") for n in took[side][i]]
    ticks = iter([at for n in order for at in (0, n)])

    def clock() -> int:
        now[0] = next(ticks)
        return now[0]

    graph = two_outputs()
    source = Source("two", graph)
    session = SimpleNamespace(feed=lambda inputs: None, run=lambda: None)
    monkeypatch.setattr(start, "build", lambda projects, compiler, flags: Path(__file__))
    monkeypatch.setattr(start, "loaded", lambda path: None)
    monkeypatch.setattr(start, "CompiledSession", lambda plan, name, library: session)
    monkeypatch.setattr(start.time, "perf_counter_ns", clock)
    got = start.start_on_host(source, Options(), random_inputs(graph))
    for side, names in (("interpreted", ["read", "plan", "bind", "first run"]), ("compiled", ["load", "first run"])):
        told = getattr(got, side)
        assert list(told) == names
        assert list(told.values()) == pytest.approx(np.median(took[side], axis=0) / 1e6)
    assert got.unit == "ms"
    assert next(ticks, None) is None


# -- peers in a process of their own -----------------------------------------------------------------------------------


class Counting(PeerModel):
    """A runtime with state: its outputs are its inputs, plus how often it ran since it was reset."""

    def __init__(self, content: bytes, outputs: int) -> None:
        self.content, self.count, self.inputs, self.ran = content, outputs, list[Array](), 0

    def feed(self, inputs: Sequence[Array]) -> None:
        self.inputs = list(inputs)

    def invoke(self) -> None:  # type: ignore[override]
        self.ran += 1

    def outputs(self) -> list[Array]:
        return [value + self.ran for value in self.inputs[: self.count]]

    def reset(self) -> None:
        self.ran = 0


def test_a_peers_answers_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than ten samples of more than ten inputs keep their order, each from fresh state."""
    peer = Peer("echo", "Echo", "Echo", "numpy", "numpy", Counting)
    monkeypatch.setattr(engines, "peers", lambda: {"echo": peer})
    samples = [[np.int32([100 * i + j]) for j in range(12)] for i in range(13)]

    def run(command: Sequence[str], **_: Any) -> Any:
        *_, name, folder, count, outputs = command
        assert (Path(folder) / "model").read_bytes() == b"content"
        engines.answer(name, folder, count, outputs)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(engines.subprocess, "run", run)
    got = engines.isolate("echo", b"content", samples, 11)
    assert [np.ravel(each).tolist() for each in got] == [[100 * i + j + 1 for j in range(11)] for i in range(13)]


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (-11, "a line\nthe last", r"^echo crashes on this model \(SIGSEGV\): the last$"),
        (-6, "", r"^echo crashes on this model \(SIGABRT\): $"),
        (1, "Traceback\ntwinfer.runtime.errors.ToolError: echo refuses it: why\n", "^echo refuses it: why$"),
        (1, "Traceback\nMemoryError: more\n", "^echo fails: MemoryError: more$"),
    ],
)
def test_a_peers_end(status: int, said: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "peers", lambda: {"echo": Peer("echo", "E", "E", "numpy", "numpy", Counting)})
    monkeypatch.setattr(engines.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=status, stderr=said))
    with pytest.raises(ToolError, match=message):
        engines.isolate("echo", b"", [], 1)
