"""Coded weights in branches and loops: decoded where they stand, in every iteration, or once at the start."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from flows import Meaning, Sub
from needs import deep_but

from twinfer.aot.build.compiled import CompiledModel
from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.runtime.graph import Array, Graph, Quant, Tensor
from twinfer.runtime.options import Coding, Decoding, Mode, Options
from twinfer.runtime.plan import weights
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import If, Loop, Program, While
from twinfer.runtime.run.guard import spread
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import REFERENCE, TARGETS, Target
from twinfer.runtime.walks import steps_of

DEPTH, X = 32, Quant.per_tensor(0.05, 3)
CODINGS: list[Coding] = ["lut", "huffman", "bitmap"]

each_coding = pytest.mark.parametrize("coding", CODINGS)
each_decoding = pytest.mark.parametrize("decode", get_args(Decoding))


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts layers as small as these into slices, which are decoded one by one in a loop of their own."""
    monkeypatch.setattr(weights, "SLICE_BYTES", 256)


def dense(sub: Sub, x: Tensor, seed: int) -> Tensor:
    """A layer with weights of four values, half of them 0."""
    rng = np.random.default_rng(seed)
    data = rng.choice([0, 0, 0, -20, 7, 31], (DEPTH, DEPTH)).astype(np.int8)
    w = sub.tensor(data.shape, "INT8", quant=Quant.per_tensor(0.02), data=data)
    b = sub.constant(rng.integers(-500, 500, DEPTH), "INT32", Quant.per_tensor(0.001))
    y = sub.tensor((1, DEPTH), "INT8", quant=X)
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False}
    return sub.run("FULLY_CONNECTED", [x, w, b], [y], **options).output


def model() -> Graph:
    """Layers before, in a branch on one side, in a loop of which one is called from two places, and behind.

    What the last layer gives is kept in a variable, and added in the next run.
    """
    then, orelse, test, body, main = (Sub(name) for name in ("then", "else", "test", "body", "main"))
    for sub in (then, orelse):
        sub.input((1, DEPTH), "INT8", quant=X)
    graphs = [then.graph([dense(then, dense(then, then.inputs[0], 1), 2)]), orelse.graph(orelse.inputs)]
    for sub in (test, body):
        sub.input((1,), "INT32")
        sub.input((1, DEPTH), "INT8", quant=X)
        sub.input((1,), "BOOL")
    i, x, c = body.inputs
    (y,) = body.branch(c, 1, 2, [dense(body, x, 3)], [x])
    graphs += [test.graph([test.less(test.inputs[0], np.array([3], np.int32))])]
    graphs += [body.graph([body.add(i, np.array([1], np.int32)), y, c])]
    x, c, h = main.input((1, DEPTH), "INT8", quant=X), main.input(type="BOOL"), main.handle()
    (y,) = main.branch(c, 1, 2, [dense(main, x, 4)], [x])
    y = main.loop(3, 4, [main.constant([0], "INT32"), y, c])[1]
    old, new = main.read(h, (1, DEPTH), "INT8", quant=X), main.tensor((1, DEPTH), "INT8", quant=X)
    main.run("ADD", [dense(main, y, 5), old], [new], fused_activation_function="NONE")
    main.assign(h, new)
    return main.graph([new, y], *graphs)


def runs() -> list[list[Array]]:
    rng = np.random.default_rng(6)
    return [[rng.integers(-128, 128, (1, DEPTH)).astype(np.int8), np.array([i != 1])] for i in range(4)]


def wanted() -> list[list[Array]]:
    """numpy's outputs; the variable begins with its zero point."""
    meaning = Meaning(model(), {"v": np.full((1, DEPTH), X.zero_point[0], np.int8)})
    return [meaning.run(values) for values in runs()]


def same(got: list[list[Array]]) -> None:
    for k, (seen, want) in enumerate(zip(got, wanted(), strict=True)):
        for a, b in zip(seen, want, strict=True):
            np.testing.assert_array_equal(a, b.reshape(a.shape), err_msg=f"run {k}")


def invoked(engine: Interpreter) -> list[list[Array]]:
    """What an engine, compiled or not, gives in every run."""
    got = []
    for values in runs():
        engine.session.feed(values)
        engine.invoke()
        got.append(engine.session.outputs())
    return got


def inner(program: Program) -> Program:
    """What stands in branches and loops of a program."""
    parts = [part for part in program if isinstance(part, If | While)]
    return tuple(each for part in parts for each in ((*part.then, *part.orelse) if isinstance(part, If) else part.body))


def check_coded(plan: Plan, decode: Decoding) -> None:
    """Every layer's weights are coded, those in branches and loops, too; decoded at the start they are state."""
    layers = [step for step in steps_of(plan.program) if step.node.op == "FULLY_CONNECTED"]
    inside = [step for step in steps_of(inner(plan.program)) if step in layers]
    assert (len(layers), len(inside)) == (7, 5)
    decoders = [step for step in plan.start if any("decode" in kernel for kernel in step.kernels)]
    if decode == "layer":
        assert not decoders
        assert all(any("decode" in kernel for kernel in step.kernels) for step in layers)
        sliced = any(isinstance(instruction, Loop) for step in inside for instruction in step.body)
        assert sliced == (plan.target is not REFERENCE), "only a kernel of the reference takes its weights whole"
        return
    assert len(decoders) == len(layers)
    assert all(len(step.calls) == 1 for step in layers)
    decoded = [step.call.inputs[1] for step in layers]
    assert {plan.places[tensor].region for tensor in decoded if isinstance(tensor, Tensor)} == {Region.STATE}


@each_coding
@each_decoding
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_interpreted(coding: Coding, decode: Decoding, target: Target) -> None:
    """Over rubbish in all memory that holds no value, as planned and under guard."""
    plan = make_plan(model(), target, Options(weights=coding, decode=decode))
    check_coded(plan, decode)
    for each in (plan, spread(plan)):
        session, got = Session(each), []
        for values in runs():
            poison(session)
            session.feed(values)
            session.run()
            got.append(session.outputs())
        same(got)


@each_decoding
@pytest.mark.parametrize("mode", deep_but(get_args(Mode), "compiled"))
def test_compiled(decode: Decoding, mode: Mode) -> None:
    engine = CompiledModel.from_graph(model(), Options(weights="huffman", decode=decode, mode=mode))
    engine.allocate_tensors()
    for _ in range(2):
        same(invoked(engine))
        engine.reset_all_variables()


@pytest.mark.usefixtures("board_tools")
def test_on_the_core() -> None:
    """Both ways to decode in one program."""
    card = find("cortex-m4")
    plans = [make_plan(model(), card.target, Options(weights="lut", decode=decode)) for decode in get_args(Decoding)]
    firmware = build([emit(plan, f"at_{plan.options.decode}") for plan in plans], card)
    jobs = [Job(values, i, fresh=not k) for i in range(len(plans)) for k, values in enumerate(runs())]
    results = [list(result.outputs) for result in run_jobs(firmware, jobs, count=False)]
    for i in range(len(plans)):
        same(results[len(runs()) * i :][: len(runs())])
