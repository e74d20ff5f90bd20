"""The interpreter without its C kernels: numpy computes in their place, with the same integers, and says so once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny

from twinfer.bench.models.source import load
from twinfer.runtime.errors import InvalidArgumentError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.by_numpy import WHY, NumpySession
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session

#: Runs models in a process that cannot find the extension: ``python - MODEL INPUTS OUTPUTS``.
RUN = """
import sys
sys.modules["twinfer.kernels_c._ffi"] = None
import numpy as np
import twinfer
from twinfer import Interpreter

interpreter = Interpreter(sys.argv[1])
samples = np.load(sys.argv[2])
np.save(sys.argv[3], [interpreter.run(sample, integers=True) for sample in samples])
assert np.array_equal(interpreter.predict(samples, integers=True), np.load(sys.argv[3]))
try:
    twinfer.compile(sys.argv[1])
except twinfer.ToolError as error:
    print(error)
"""

pytestmark = pytest.mark.filterwarnings("ignore:twinfer's C kernels")


def answers(plan: Plan, engine: type[Session]) -> list[list[np.ndarray]]:
    session, seen = engine(plan), []
    for seed in range(3):
        session.feed(random_inputs(plan.graph, seed))
        session.run()
        seen.append(session.outputs())
    return seen


def check(plan: Plan) -> None:
    """Integers are compared with ==; floats may be summed in another order."""
    for ours, theirs in zip(answers(plan, NumpySession), answers(plan, Session), strict=True):
        for mine, other in zip(ours, theirs, strict=True):
            if mine.dtype.kind == "f":
                np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("name", ["digits_int8", "kws_int8", "ad01_int8"])
def test_a_process_without_the_extension(name: str, tmp_path: Path) -> None:
    source = load(name)
    graph = source.graph
    (tmp_path / "model.tflite").write_bytes(source.content)
    samples = [random_inputs(graph, seed)[0] for seed in range(2)]
    np.save(tmp_path / "inputs.npy", samples)
    paths = [str(tmp_path / path) for path in ("model.tflite", "inputs.npy", "outputs.npy")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", RUN, *paths], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(WHY) == 1
    assert "use Interpreter" in done.stdout
    session, wanted = Session(make_plan(graph)), []
    for sample in samples:
        session.feed([sample])
        session.run()
        wanted.append(session.outputs()[0])
    np.testing.assert_array_equal(np.load(tmp_path / "outputs.npy"), wanted)


@pytest.mark.parametrize("name", tiny.MODELS)
def test_every_tiny_model(name: str) -> None:
    """The same integers, or a refusal that says what is missing."""
    plan = tiny.MODELS[name]()
    if runs(plan):
        check(plan)
    else:
        with pytest.raises(TwinferError, match="C kernels"):
            NumpySession(plan)


def runs(plan: Plan) -> bool:
    """Whether no layer runs by rows, and none keeps a state but variables that the model names."""
    stateful = {"SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM"}
    return not plan.chains and not stateful & {step.node.op for step in plan.steps}


def test_what_needs_the_kernels() -> None:
    graph: Graph = load("kws_int8").graph
    with pytest.raises(InvalidArgumentError, match="rows needs twinfer's C kernels"):
        NumpySession(make_plan(graph, options=Options(memory="rows")))
    with pytest.raises(UnsupportedOperatorError, match=r"SVDF.*C kernels must be built"):
        NumpySession(make_plan(svdf()))


def svdf() -> Graph:
    from twinfer.runtime.ops.recurrent.svdf import OP

    node = next(OP.cases(np.random.default_rng(1))).node
    tensors = (*(t for t in node.inputs if t is not None), *node.outputs)
    free = tuple(t for t in tensors if t.data is None and not t.variable and t not in node.outputs)
    return Graph("svdf", tensors, (node,), free, node.outputs)
