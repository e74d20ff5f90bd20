"""An input that comes row by row: the same bits as a whole one, less memory, and every wrong call told."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases import assert_sanitized, compiled_together, outputs_of, over_rubbish, same
from flows import Sub
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import deep_but
from row_nets import network

import twinfer
from twinfer.aot.build.host import compile_plans
from twinfer.aot.print.emit import emit
from twinfer.converter.build import Builder
from twinfer.kernels_c import ffi
from twinfer.runtime.errors import InvalidArgumentError, NotReadyError
from twinfer.runtime.graph import Array, Graph, Signature
from twinfer.runtime.options import Memory, Mode, Options
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.by_rows.chain_table import ChainTable
from twinfer.runtime.plan.choice import share_all
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Place, Plan
from twinfer.runtime.program import Chain
from twinfer.runtime.rows import Feed
from twinfer.runtime.run import limits
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, TARGETS, Target

FED, LAYERS = Options(memory="rows", input_rows=True), Options(memory="layers")
MODES: tuple[Memory, ...] = ("auto", "layers", "rows")


def feed_of(plan: Plan) -> Feed:
    assert plan.fed is not None
    assert plan.fed.feed is not None
    return plan.fed.feed


def wanted_outputs(graph: Graph, seed: int) -> list[Array]:
    return outputs_of(Session(make_plan(graph, options=LAYERS)), random_inputs(graph, seed))


def pushed(session: Session, graph: Graph, seed: int) -> list[Array]:
    """The outputs of an inference row by row, over memory full of rubbish; all rows are pushed, also unwanted ones."""
    feed, rows = feed_of(session.plan), session.feed_rows
    assert rows is not None
    poison(session)
    rows.begin()
    for i, row in enumerate(random_inputs(graph, seed)[0].reshape(feed.height, -1)):
        assert rows.push(row) == max(0, feed.wanted - i - 1)
    rows.finish()
    return session.outputs()


@pytest.mark.parametrize("kind", ["INT8", "INT16", "FLOAT32"])
@given(
    seed=st.integers(0, 1 << 20), target=st.sampled_from(TARGETS), memory=st.sampled_from(["auto", "layers", "rows"])
)
@settings(max_examples=50, deadline=None)
def test_interpreted(kind: str, seed: int, target: Target, memory: Memory) -> None:
    graph = network(seed, kind)
    session = Session(make_plan(graph, target, Options(memory=memory, input_rows=True)))
    want = wanted_outputs(graph, seed)
    same(pushed(session, graph, seed), want)
    same(over_rubbish(session, graph, seed), want)


@pytest.mark.parametrize("mode", deep_but(["compiled", "interpreted"], "compiled"))
def test_compiled(mode: Mode) -> None:
    """Many networks in one library."""
    graphs = {f"n{seed}": network(seed, ("INT8", "INT8", "INT16", "FLOAT32")[seed % 4]) for seed in range(16)}
    plans = {
        name: make_plan(graph, TARGETS[i % len(TARGETS)], replace(FED, mode=mode))
        for i, (name, graph) in enumerate(graphs.items())
    }
    assert sum(len(plan.fed.layers) > 1 for plan in plans.values() if plan.fed) >= 5
    for name, session in compiled_together(plans).items():
        want = wanted_outputs(graphs[name], 1)
        same(pushed(session, graphs[name], 1), want)
        same(over_rubbish(session, graphs[name], 1), want)
        assert len(session.profile(1)) == len(session.plan.steps)


def test_wrong_calls_in_c() -> None:
    """Every wrong order of calls has its code, whatever bytes the arena begins with, and changes nothing."""
    graph = network(3)
    session = compile_plans({"m": make_plan(graph, options=FED)})["m"]
    begin, push, finish = (getattr(session.library, f"m_{what}") for what in ("begin", "push_row", "finish"))
    rows = random_inputs(graph, 5)[0].reshape(feed_of(session.plan).height, -1)[: feed_of(session.plan).wanted]
    bytes_needed = session.plan.memory_bytes
    buffer = ctypes.create_string_buffer(bytes_needed + 64)
    at = -(-ctypes.addressof(buffer) // 16) * 16
    arena, odd = ctypes.c_void_p(at), ctypes.c_void_p(at + 4)
    got = [np.empty_like(value) for value in wanted_outputs(graph, 5)]
    outputs = (ctypes.c_void_p * len(got))(*(value.ctypes.data for value in got))
    first = ctypes.c_void_p(rows[0].ctypes.data)
    for byte in (0, 0x5A, 0xFF):
        ctypes.memset(at, byte, bytes_needed)
        assert (push(arena, first), finish(arena, outputs)) == (-4, 4)
        assert (begin(None), begin(odd), begin(arena)) == (1, 2, 0)
        assert (push(None, first), push(arena, None), push(odd, first), finish(odd, outputs)) == (-1, -1, -2, 2)
        for i, row in enumerate(rows):
            assert finish(arena, outputs) == 3
            assert push(arena, ctypes.c_void_p(row.ctypes.data)) == len(rows) - i - 1
        assert push(arena, first) == -3
        assert finish(arena, outputs) == 0
        same(got, wanted_outputs(graph, 5))
        assert (push(arena, first), finish(arena, outputs)) == (-4, 4)


@pytest.mark.skipif(not (shutil.which("clang") or shutil.which("gcc")), reason="no compiler")
@pytest.mark.deep
@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_sanitized(mode: Mode, tmp_path: Path) -> None:
    """The self-tests, whole and row by row, under ASan and UBSan."""
    programs = []
    for seed in range(15):
        graph = network(seed, ("INT8", "FLOAT32", "INT16")[seed % 3])
        plan = make_plan(graph, TARGETS[seed % len(TARGETS)], replace(FED, mode=mode))
        policy = share_all if seed % 4 else None
        programs.append((emit(plan, f"n{seed}", policy=policy), random_inputs(graph, seed)))
    assert sum(len(project.plan.fed.layers) > 1 for project, _ in programs if project.plan.fed) >= 3
    assert_sanitized(tmp_path, programs)


@cache
def fed_plans() -> list[tuple[Plan, Chain]]:
    """Plans whose input goes through a ring."""
    plans = [make_plan(network(seed, layers=10), TARGETS[seed % len(TARGETS)], FED) for seed in range(70)]
    return [(plan, plan.fed) for plan in plans if plan.fed and feed_of(plan).out in plan.fed.rings]


def changed(plan: Plan, **members: object) -> Plan:
    """The plan with other members of the chain that takes rows."""
    assert plan.fed is not None
    return replace(plan, program=(replace(plan.fed, **members), *plan.program[1:]))


def test_the_proof_notices_rings_that_are_too_small() -> None:
    tried = 0
    for plan, chain in fed_plans():
        source = feed_of(plan).out
        ring = chain.rings[source]
        if ring.capacity > 1:
            rings = {**chain.rings, source: ring._replace(capacity=ring.capacity - 1)}
            assert replay.fault(changed(plan, rings=rings)) is not None
            tried += 1
    assert tried > 5


def test_the_proof_notices_a_wrong_number_of_rows() -> None:
    """One more would be written behind the ring, one less leaves the outputs incomplete."""
    tried = 0
    for plan, chain in fed_plans():
        for other in (-1, 1):
            feed = replace(feed_of(plan), wanted=feed_of(plan).wanted + other)
            assert "rows of it" in str(replay.fault(changed(plan, feed=feed, rings=chain.rings)))
            tried += 1
    assert tried > 20


def test_progress_has_room_for_all_that_gives_rows() -> None:
    tried = 0
    for seed in range(20):
        plan = make_plan(network(seed), options=Options(memory="rows", input_rows=True))
        assert plan.fed is not None
        assert plan.fed.progress is not None
        entries = ChainTable(plan, plan.fed).counts["count"]
        assert plan.fed.progress.nbytes == entries * ffi.sizeof("tw_rows_progress")
        tried += entries > 1
    assert tried > 5


def test_the_proof_notices_that_progress_is_lost() -> None:
    """The progress on the ring of the input, or on another one."""
    tried = 0
    for plan, chain in fed_plans():
        assert chain.progress is not None
        for ring in chain.rings.values():
            place = plan.places[ring.memory]
            moved = replace(plan, places={**plan.places, chain.progress: Place(place.region, place.offset)})
            assert replay.fault(moved) is not None
            tried += 1
    assert tried > 20


def test_less_memory_than_with_a_whole_input() -> None:
    saved = [plan.memory_bytes / make_plan(plan.graph, plan.target, LAYERS).memory_bytes for plan, _ in fed_plans()]
    assert np.exp(np.mean(np.log(saved))) < 0.7


def conv_net() -> Graph:
    """A convolution that does not need the last row of its input."""
    b = Builder("camera")
    x = b.input("x", "FLOAT32", (1, 8, 4, 1))
    w = np.linspace(-1, 1, 18, dtype=np.float32).reshape(2, 3, 3, 1)
    options = {"padding": "VALID", "stride_h": 2, "stride_w": 1, "fused_activation_function": "NONE"}
    return b.graph([b.op("CONV_2D", [x, w, np.zeros(2, np.float32)], **options)])


def test_in_python(tmp_path: Path) -> None:
    graph, path = conv_net(), tmp_path / "camera.tflite"
    graph.save(path)
    x = random_inputs(graph)[0]
    want = wanted_outputs(graph, 0)[0]
    interpreter = Interpreter(model_path=path, input_rows=True)
    interpreter.allocate_tensors()
    by_rows = twinfer.compile(path, memory="rows", input_rows=True)
    for engine, wanted in ((interpreter, 8), (by_rows, 7)):  # the interpreter's plan for the host collects all rows
        engine.begin()
        apart = np.repeat(x[0], 2, axis=-1)[..., ::2]  # rows whose elements do not lie one behind the other
        assert [engine.push_row(row) for row in apart] == [max(0, wanted - 1 - i) for i in range(8)]
        engine.finish()
        for again in (engine.finish, lambda push=engine.push_row: push(x[0, 0])):
            with pytest.raises(NotReadyError, match="begin"):
                again()
        got = engine.get_tensor(engine.get_output_details()[0]["index"])
        np.testing.assert_array_equal(got, want)
        engine.set_tensor(engine.get_input_details()[0]["index"], x)
        engine.invoke()
        np.testing.assert_array_equal(engine.get_tensor(engine.get_output_details()[0]["index"]), want)


def test_wrong_calls_are_told() -> None:
    graph = conv_net()
    engine = Interpreter.from_graph(graph, FED)
    engine.allocate_tensors()
    row = np.zeros(4, np.float32)
    with pytest.raises(NotReadyError, match="begin"):
        engine.push_row(row)
    with pytest.raises(NotReadyError, match="begin"):
        engine.finish()
    engine.begin()
    for wrong in (row.astype(np.int8), np.zeros(5, np.float32), np.zeros(0, np.float32), "row"):
        with pytest.raises(InvalidArgumentError, match="give 4 elements of float32"):
            engine.push_row(wrong)
    engine.push_row(row)
    with pytest.raises(InvalidArgumentError, match="6 more rows are wanted"):
        engine.finish()
    usual = Interpreter.from_graph(graph)
    usual.allocate_tensors()
    with pytest.raises(InvalidArgumentError, match="input_rows=True"):
        usual.begin()
    guarded = Interpreter.from_graph(graph, replace(FED, guard=True))
    guarded.allocate_tensors()
    with pytest.raises(InvalidArgumentError, match="guard is on"):
        guarded.begin()


def test_inputs_that_have_no_rows_are_refused() -> None:
    b = Builder("two")
    x, y = b.input("x", "FLOAT32", (1, 4)), b.input("y", "FLOAT32", (1, 4))
    two = b.graph([b.op("ADD", [x, y], fused_activation_function="NONE")])
    with pytest.raises(InvalidArgumentError, match="'two' has 2 inputs"):
        make_plan(two, options=FED)
    b = Builder("scalar")
    scalar = b.graph([b.op("ABS", [b.input("x", "FLOAT32", ())])])
    with pytest.raises(InvalidArgumentError, match="has no rows"):
        make_plan(scalar, options=FED)


def test_any_other_input_is_collected() -> None:
    """Rows along the first axis that has several elements, where no layer runs by rows."""
    b = Builder("dense")
    x = b.input("x", "FLOAT32", (1, 6))
    graph = b.graph([b.op("ABS", [x])])
    plan = make_plan(graph, options=FED)
    assert (feed_of(plan).height, plan.fed and plan.fed.layers) == (6, ())
    same(pushed(Session(plan), graph, 3), wanted_outputs(graph, 3))


@pytest.mark.parametrize("seed", range(3))
def test_what_may_take_long_runs_step_by_step_behind_the_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONG", -1)
    graph = network(seed, "INT8")
    session = Session(make_plan(graph, GENERIC, FED))
    ran: list[int] = []
    monkeypatch.setattr(session, "run_step", lambda i, run=session.run_step: (ran.append(i), run(i)))
    same(pushed(session, graph, seed), wanted_outputs(graph, seed))
    assert len(ran) == len(set(ran)) > 0


@pytest.mark.parametrize("engine", [Interpreter, twinfer.CompiledModel])
def test_variables_of_another_signature(engine: type[Interpreter]) -> None:
    """An inference that begins row by row reads what the other signature has written last."""
    a, b, shape = Sub("a"), Sub("b"), (1, 8, 1, 1)
    y = a.add(a.op("RELU", [a.input(shape)]), a.read(a.handle(), shape))
    b.assign(b.handle(), b.input(shape))
    other = b.graph([b.op("NEG", [b.inputs[0]])])
    pairs = [({"x": sub.inputs[0]}, {"y": out}) for sub, out in ((a, y), (b, other.outputs[0]))]
    signatures = tuple(Signature("ab"[i], *pair, i) for i, pair in enumerate(pairs))
    model = engine.from_graph(a.graph([y], other, signatures=signatures), Options(memory="rows", input_rows=True))
    model.allocate_tensors()
    values = np.arange(8, dtype=np.float32)
    for times in (1, 3):
        model.get_signature_runner("b")(x=times * values.reshape(shape))
        model.begin()
        for value in values:
            model.push_row(np.array([value]))
        model.finish()
        output = model.get_tensor(model.get_output_details()[0]["index"])
        np.testing.assert_array_equal(output.reshape(-1), (1 + times) * values)


@pytest.mark.skipif(not (shutil.which("clang") or shutil.which("gcc")), reason="no compiler")
def test_a_constant_input_before_the_rows(tmp_path: Path) -> None:
    b = Builder("second")
    constant, y = (
        b.constant(np.ones((2, 2), np.float32)),
        b.op("EXP", [b.op("NEG", [b.input("x", "FLOAT32", (1, 6, 3, 1))])]),
    )
    graph = b.graph([y])
    graph = replace(graph, inputs=(constant, *graph.inputs))
    plan = make_plan(graph, options=Options(memory="rows", input_rows=True))
    assert_sanitized(tmp_path, [(emit(plan, "second"), random_inputs(graph))])
