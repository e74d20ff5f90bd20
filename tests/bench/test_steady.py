"""What docs/firmware.md says about time that depends on data holds for the layers of a model."""

from __future__ import annotations

from needs import need_tools

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.lab.figures import document
from twinfer.bench.lab.steady import CORE, MODELS, values
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan


def test_steady_kernels_take_as_many_instructions_for_all_inputs() -> None:
    """Inputs are random, and ends of their types."""
    need_tools("arm-none-eabi-gcc", "qemu-system-arm")
    told, card = document("steady"), find(CORE)
    plan = make_plan(builtin()["digits_int8"](), card.target, Options(memory="layers"))
    runs = run_jobs(build(emit(plan, "m"), card), [Job(inputs, by_step=True) for inputs in values(plan.graph)])
    steady = [i for i, step in enumerate(plan.steps) if told["kernels"].get(step.call.kernel) == 0]
    assert len(steady) > 3
    for i in steady:
        assert len({run.counts[i] for run in runs}) == 1, plan.steps[i].call.kernel


def test_all_is_measured() -> None:
    told = document("steady")
    assert {*told["models"]} == {*MODELS}
    assert all(least <= most for least, most in told["models"].values())
    assert 0 < sum(share > 0 for share in told["kernels"].values()) < len(told["kernels"]) / 2
