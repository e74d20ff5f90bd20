"""Guard mode: right kernels pass, and a kernel that is wrong on purpose is named."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import tiny
from cases import cases_of, distinct_plans, graph_of, outputs_of, values_of
from flows import Sub
from needs import deep_but

from twinfer.aot.build import firmware
from twinfer.aot.build.compiled import CompiledModel
from twinfer.aot.build.host import FLAGS as HOST_FLAGS
from twinfer.aot.build.host import build, compile_plans
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.aot.print.guard import STATUS, check_status
from twinfer.converter.build import Builder
from twinfer.runtime.errors import GuardError
from twinfer.runtime.graph import Graph, Quant, Tensor
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Place, Plan, Region
from twinfer.runtime.registry import operators
from twinfer.runtime.run.buffers import aligned_bytes
from twinfer.runtime.run.guard import Guard, spread
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, TARGETS
from twinfer.runtime.tools import find_compiler
from twinfer.runtime.walks import with_steps

SIZE = 8

Engine = Callable[[Plan], Session]


def compiled(plan: Plan) -> Session:
    return compile_plans({"m": plan})["m"]


ENGINES = pytest.mark.parametrize("engine", [Session, compiled], ids=["interpreted", "compiled"])


def chain() -> Plan:
    """x -> RELU -> MUL by itself -> ADD to the RELU, eight elements each: three steps, none in place."""
    b = Builder("chain")
    x = b.input("x", "FLOAT32", (SIZE,))
    y = b.op("RELU", [x])
    z = b.op("MUL", [y, y])
    return make_plan(b.graph([b.op("ADD", [z, y]), x]), GENERIC)


def kept(dtype: str = "FLOAT32") -> Plan:
    """NEG of what a variable holds, then a copy of x to the variable."""
    sub = Sub("kept")
    quant = Quant.per_tensor(0.1) if dtype == "INT8" else None
    x, handle = sub.input((SIZE,), dtype, quant=quant), sub.handle()
    old = sub.tensor((SIZE,), dtype, quant=quant)
    sub.run("NEG", [sub.read(handle, (SIZE,), dtype, quant=quant)], [old])
    sub.assign(handle, x)
    return make_plan(Graph("kept", (*sub.tensors,), (*sub.nodes,), (x,), (old,)), GENERIC)


def run(plan: Plan, engine: Engine = Session) -> None:
    session = engine(plan)
    for tensor, value in zip(plan.graph.inputs, random_inputs(plan.graph), strict=True):
        session.view(tensor)[...] = value
    Guard(session).run()


def changed(plan: Plan, i: int, size: int) -> Plan:
    """The plan with rows of another size in step ``i``."""
    step = plan.steps[i]
    params = step.call.params
    own = {"walk": {**params["walk"], "size": size}} if "walk" in params else {"size": size}
    call = replace(step.call, params={**params, **own})
    other = replace(step, call=call, body=(call,))
    return replace(plan, program=with_steps(plan.program, lambda each: other if each is step else each))


def placed(plan: Plan, offsets: Mapping[Tensor, int]) -> Plan:
    """The plan with tensors in other places."""
    return replace(plan, places={**plan.places, **{t: Place(Region.ARENA, at) for t, at in offsets.items()}})


@pytest.mark.parametrize("every", deep_but([8, 1], 8))
@pytest.mark.parametrize("op", operators())
def test_every_case_passes(op: str, every: int) -> None:
    for name, case in [*cases_of(op).items()][::every]:
        graph = graph_of(case.node)
        values = values_of(case, graph)
        for target, plan in distinct_plans(graph, TARGETS, Options(guard=True)):
            session = Session(spread(plan))
            session.feed(values)
            Guard(session).run()
            got = [v.tobytes() for v in session.outputs()]
            want = [v.tobytes() for v in outputs_of(Session(plan), values)]
            assert got == want, f"{name} on {target.name}"


@pytest.mark.parametrize("name", tiny.MODELS)
@pytest.mark.parametrize("engine", [Interpreter, CompiledModel])
def test_models_pass_and_give_the_same(name: str, engine: type[Interpreter]) -> None:
    graph, outputs = tiny.MODELS[name]().graph, []
    for guard in (False, True):
        model = engine.from_graph(graph, Options(guard=guard))
        model.allocate_tensors()
        for details, value in zip(model.get_input_details(), random_inputs(graph), strict=True):
            model.set_tensor(details["index"], value)
        model.invoke()
        outputs.append([model.get_tensor(d["index"]).tobytes() for d in model.get_output_details()])
    assert outputs[0] == outputs[1]


@ENGINES
def test_overrun_is_named(engine: Engine) -> None:
    """One element too many, behind the end."""
    plan = chain()
    with pytest.raises(
        GuardError, match=r"step 1 \(operator 1 MUL .*, tw_mul_f32\) wrote [34] bytes outside"
    ) as caught:
        run(changed(spread(plan), 1, size=SIZE + 1), engine)
    assert "0 bytes behind the end of tensor" in str(caught.value)
    assert "into free memory" in str(caught.value)
    assert plan.steps[1].node.output.name in str(caught.value)


@ENGINES
@pytest.mark.parametrize("dtype", ["FLOAT32", "INT8", "INT64"])
def test_a_copy_of_one_element_too_many_is_named(engine: Engine, dtype: str) -> None:
    """Rubbish is copied over rubbish, of which every byte was the same once."""
    plan = kept(dtype)
    size = plan.steps[1].call.params["size"]
    with pytest.raises(GuardError, match=r"step 1 \(.* ASSIGN_VARIABLE.*, 0 bytes behind the end of .*'v'.* into free"):
        run(changed(spread(plan), 1, size=size + size // SIZE), engine)


def test_every_byte_beside_its_own_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 1, which reads y and writes z, also changes some bytes anywhere: how many, where, and what was hit.

    x is an output, too.
    """
    plan = spread(chain())
    session = Session(plan)
    session.feed(random_inputs(plan.graph))
    x, y, z = plan.graph.inputs[0], plan.steps[0].node.output, plan.steps[1].node.output
    own, *needed = ({*range(plan.offsets[t], plan.offsets[t] + 4 * SIZE)} for t in (z, x, y))
    run_step, told = session.run_step, set()
    for at in range(0, plan.memory_bytes - 5, 3):
        for count in (1, 5):

            def scribble(i: int, touched: slice = slice(at, at + count)) -> None:
                run_step(i)
                if i == 1:
                    session.memory[touched] ^= 0xFF

            monkeypatch.setattr(session, "run_step", scribble)
            outside = [byte for byte in range(at, at + count) if byte not in own]
            if not outside:
                Guard(session).run()
                continue
            first = outside[0]
            far = first - max(own) - 1
            place = f"{far} bytes behind the end" if far >= 0 else f"{min(own) - first} bytes before the start"
            with pytest.raises(GuardError) as caught:
                Guard(session).run()
            hit = str(x) if first in needed[0] else str(y) if first in needed[1] else "free memory"
            where = f"wrote {len(outside)} bytes outside its blocks, the first at arena offset {first}, {place} of {z} "
            assert where in str(caught.value)
            assert str(caught.value).endswith(f"into {hit}")
            told.add((far >= 0, hit))
    assert told == {(False, str(x)), (False, str(y)), (False, "free memory"), (True, "free memory")}


def test_the_nearest_block_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a step with two outputs, whose blocks lie apart; bytes before, between and behind them are changed."""
    b = Builder("halves")
    halves = [Tensor(name, "FLOAT32", (SIZE,)) for name in ("first", "second")]
    b.node("SPLIT", [np.array(0, np.int32), b.input("x", "FLOAT32", (2 * SIZE,))], halves, {"num_splits": 2})
    plan = spread(make_plan(b.graph(halves), GENERIC))
    first, second = plan.steps[0].node.outputs
    session = Session(plan)
    session.feed(random_inputs(plan.graph))
    spans = {t: (plan.offsets[t], plan.offsets[t] + 4 * SIZE) for t in (first, second)}
    run_step, named = session.run_step, set()
    for at in range(0, plan.memory_bytes, 4):
        away = {t: max(begin - at, at - end + 1) for t, (begin, end) in spans.items()}
        if min(away.values()) <= 0 or abs(away[first] - away[second]) <= 1:
            continue

        def scribble(i: int, at: int = at) -> None:
            run_step(i)
            session.memory[at] ^= 0xFF

        monkeypatch.setattr(session, "run_step", scribble)
        nearest = min(away, key=lambda t: away[t])
        with pytest.raises(GuardError, match=re.escape(f" of {nearest} [")):
            Guard(session).run()
        named.add(nearest)
    assert named == {first, second}


@ENGINES
def test_missing_output_is_named(engine: Engine) -> None:
    """One element too few: the last one depends on what was in memory."""
    plan = chain()
    with pytest.raises(GuardError, match=r"step 1 .*4 bytes of tensor .*first at offset 28, depend on memory"):
        run(changed(spread(plan), 1, size=SIZE - 1), engine)


def test_life_too_short_is_named() -> None:
    plan = chain()
    y = plan.steps[0].node.output
    with pytest.raises(GuardError, match=r"step 2 .* ADD .*depend on memory that holds no value"):
        run(spread(replace(plan, lives={**plan.lives, y: (0, 1)})))


@pytest.mark.parametrize("behind", [0, 16])
def test_overlap_is_named(behind: int) -> None:
    """MUL reads its input twice: it must not work in place."""
    plan = chain()
    y, z = (plan.steps[i].node.output for i in (0, 1))
    with pytest.raises(GuardError, match=r"step 1 .* MUL .* writes tensor .* over tensor .*, which it needs"):
        spread(placed(plan, {z: plan.offsets[y] + behind}))


def test_a_value_that_is_needed_later_is_named() -> None:
    """RELU may work in place, but not if its input is needed later: the caller reads x."""
    b = Builder("later")
    x = b.input("x", "FLOAT32", (SIZE,))
    y = b.op("RELU", [x])
    plan = make_plan(b.graph([b.op("ADD", [y, x])]), GENERIC)
    assert plan.steps[0].call.inplace
    with pytest.raises(GuardError, match=r"step 1 .* ADD .* reads .*, which holds no value then: step 0 .* has"):
        spread(placed(plan, {y: plan.offsets[x]}))


def test_outputs_over_one_another_are_named() -> None:
    b = Builder("two")
    axis = np.array(0, np.int32)
    halves = [Tensor(name, "FLOAT32", (4,)) for name in ("first", "second")]
    b.node("SPLIT", [axis, b.input("x", "FLOAT32", (8,))], halves, {"num_splits": 2})
    plan = make_plan(b.graph(halves))
    first, second = plan.steps[0].node.outputs
    with pytest.raises(GuardError, match=r"SPLIT .* writes tensor .* over tensor .*, which it needs"):
        spread(placed(plan, {second: plan.offsets[first]}))


# -- emitted code ------------------------------------------------------------------------------------------------------

MODES = pytest.mark.parametrize("mode", ["compiled", "interpreted"])


@MODES
def test_emitted_code_tells_an_overrun(mode: Mode, tmp_path: Path) -> None:
    plan = changed(chain(), 1, size=SIZE + 1)
    for guard, status in ((True, STATUS + 1), (False, 0)):
        project = emit(plan.printed(mode=mode, guard=guard), "m")
        library = ctypes.CDLL(str(build([project], find_compiler(), HOST_FLAGS)))
        arena = aligned_bytes(project.plan.arena_bytes)
        assert library.m_run(arena.ctypes.data_as(ctypes.c_void_p), None, None) == status
        if guard:
            with pytest.raises(GuardError, match=r"step 1 \(operator 1 MUL .*wrote outside its blocks: tensor 'mul_2'"):
                check_status(project.plan, status)


@MODES
def test_emitted_code_watches_a_model_with_a_state(mode: Mode) -> None:
    """A layer that overruns in the arena alone, or copies rubbish of the arena over that of the state, is told."""
    plan = kept()
    for i, size in enumerate((SIZE + 1, 4 * (SIZE + 1))):
        project = emit(changed(plan, i, size).printed(mode=mode, guard=True), f"m{i}")
        library = ctypes.CDLL(str(build([project], find_compiler(), HOST_FLAGS)))
        blocks = [aligned_bytes(project.plan.regions[each].nbytes) for each in (Region.ARENA, Region.STATE)]
        pointers = [block.ctypes.data_as(ctypes.c_void_p) for block in blocks]
        assert library[f"m{i}_run"](*pointers, None, None) == STATUS + i


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("core", deep_but(["cortex-m0", "cortex-m4"], "cortex-m4"))
def test_on_the_target(core: str) -> None:
    """Every tiny model under guard gives the same outputs; a wrong kernel is named."""
    card = find(core)
    for mode in get_args(Mode):
        plans = {name: make_plan(make().graph, card.target) for name, make in tiny.MODELS.items()}
        projects = [
            emit(plan.printed(mode=mode, guard=guard), f"{name}{guard:d}")
            for name, plan in plans.items()
            for guard in (False, True)
        ]
        jobs = [Job(random_inputs(p.plan.graph), model=i) for i, p in enumerate(projects)]
        results = run_jobs(firmware.build(projects, card), jobs, count=False)
        outputs = [[value.tobytes() for value in result.outputs] for result in results]
        assert outputs[::2] == outputs[1::2]
        wrong = emit(changed(chain(), 1, size=SIZE + 1).printed(mode=mode, guard=True), "m")
        with pytest.raises(GuardError, match=r"step 1 \(operator 1 MUL .*wrote outside its blocks: tensor 'mul_2'"):
            run_jobs(firmware.build(wrong, card), [Job(random_inputs(wrong.plan.graph))], count=False)
