"""The table of the interpreted mode at the ends of what its 16-bit numbers count."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from flows import Sub

from twinfer.aot.build.host import compile_plans
from twinfer.aot.print import table
from twinfer.aot.print.emit import emit
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Quant
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, HOST
from twinfer.runtime.tools import write_files

CODED = Options(weights="lut", mode="interpreted")
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-fsyntax-only")


def dense(out: int, depth: int) -> Graph:
    """A layer that runs in slices of 4 channels, each decoded before it."""
    net, rng = Sub("net"), np.random.default_rng(0)
    x = net.input((1, depth), "INT8", quant=Quant.per_tensor(0.5))
    w = net.constant(rng.integers(-4, 4, (out, depth)), "INT8", Quant.per_tensor(0.25))
    b = net.constant(rng.integers(-20, 20, out), "INT32", Quant.per_tensor(0.125))
    y = net.tensor((1, out), "INT8", quant=Quant.per_tensor(0.5))
    net.run("FULLY_CONNECTED", [x, w, b], [y], fused_activation_function="NONE")
    return net.graph([y])


def repeats(plan: Plan) -> list[list[int]]:
    """The rows of the table of loops: first row, number of rows, times."""
    (rows,) = re.findall(r"m_loops\[\] = \{\n(.*?)\n\};", emit(plan, "m").code["m.c"], re.DOTALL)
    return [[int(n) for n in row.split(",")] for row in re.findall(r"\{(.*?)\}", rows)]


def test_a_loop_of_many_iterations(tmp_path: Path) -> None:
    plan = make_plan(dense(262_148, 8), GENERIC, CODED)
    assert repeats(plan) == [[0, 1, 1], [1, 2, 65_535], [3, 2, 2]]
    write_files(tmp_path, emit(plan, "m").code)
    for compiler in filter(shutil.which, ("gcc", "clang", "arm-none-eabi-gcc")):
        done = subprocess.run([compiler, *STRICT, "m.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("most", [11, 16, 31, 32])
def test_a_loop_in_parts(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """32 iterations in parts of at most ``most``: the same outputs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(table, "MOST", most)
    plan = make_plan(dense(128, 640), GENERIC, CODED)
    whole, rest = divmod(32, most)
    assert [times for _, _, times in repeats(plan)][-1 - (32 - 1) // most :] == [most] * whole + [rest] * (rest > 0)
    engine = compile_plans({"m": plan})["m"]
    session, x = Session(plan), np.random.default_rng(1).integers(-128, 128, (1, 640)).astype(np.int8)
    for each in (session, engine):
        each.view(plan.graph.inputs[0])[...] = x
        each.run()
    np.testing.assert_array_equal(engine.outputs()[0], session.outputs()[0])


def test_more_than_it_counts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST", 7)
    with pytest.raises(UnsupportedOperatorError, match="at most 7 calls"):
        emit(make_plan(dense(128, 640), GENERIC, CODED), "m")
    net = Sub("net")
    net.op("CONCATENATION", [net.input((1, 2)) for _ in range(8)], shape=(1, 16), axis=1)
    joined = make_plan(net.graph(net.tensors[-1:]), HOST, Options(mode="interpreted"))
    with pytest.raises(UnsupportedOperatorError, match=r"CONCATENATION.*at most 7 inputs"):
        emit(joined, "m")


@pytest.mark.parametrize(("op", "inputs", "outputs"), [("CONCATENATION", 7, 1), ("SPLIT", 1, 7)])
def test_as_many_values_as_it_counts(op: str, inputs: int, outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of either side: as many as a number holds are printed, one more is refused."""
    for more in (0, 1):
        net = Sub("net")
        ends = [net.input((1, 2 * outputs + 2 * more * (outputs > 1))) for _ in range(inputs + more * (inputs > 1))]
        parts = [net.tensor((1, 2 * len(ends))) for _ in range(outputs + more * (outputs > 1))]
        axis = [net.constant(np.int32(1), "INT32")] if op == "SPLIT" else []
        options = {"num_splits": len(parts)} if op == "SPLIT" else {"axis": 1, "fused_activation_function": "NONE"}
        net.run(op, [*axis, *ends], parts, **options)
        plan = make_plan(net.graph(parts), HOST, Options(mode="interpreted"))
        call = plan.steps[0].call
        most = max(len(call.inputs), len(call.outputs)) - more
        monkeypatch.setattr(table, "MOST", most)
        with (
            pytest.raises(UnsupportedOperatorError, match=f"{op}.*at most {most} inputs or") if more else nullcontext()
        ):
            emit(plan, "m")
