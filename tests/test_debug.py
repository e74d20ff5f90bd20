"""TWINFER_DEBUG and TWINFER_VIZ: what planning and converting say of themselves, over three models."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest

from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.plan.make import STAGES, make_plan
from twinfer.runtime.target import AVX2, GENERIC, Target

#: Compiles a model for a target, in a process of its own: the environment is looked at when twinfer is imported.
RUN = """
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime import target
from twinfer.runtime.plan.make import make_plan
emit(make_plan(builtin()[{model!r}](), target.{target}), "m")
"""

MODELS = [("kws_int8", GENERIC), ("tcn_int8", GENERIC), ("digits_int8", AVX2)]


def said(model: str, target: Target, **environment: str) -> str:
    """What a process says on stderr that compiles a model under these settings."""
    code = RUN.format(model=model, target=target.name.upper())
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TWINFER_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**clean, **environment}, capture_output=True, text=True, check=True
    )
    assert not done.stdout
    return done.stderr


@pytest.mark.parametrize(("model", "target"), MODELS)
def test_levels(model: str, target: Target) -> None:
    plan = make_plan(builtin()[model](), target)
    text = said(model, target, TWINFER_DEBUG="4")
    heads = [line.partition(": ")[2] for line in text.splitlines()]
    told = [line.partition(":")[0] for line in heads if not line.startswith(" ")]
    names = [stage.name for stage in STAGES]
    assert [name for name in told if name in names][-len(names) :] == names  # int8 models begin with a plan of floats
    assert f"{plan.arena_bytes:,} bytes of arena" in text
    for step in plan.steps:  # 2: variants, and why better ones declined
        assert f" {step.node.index} {step.node.op}: {', '.join(step.kernels)}, {step.choice.variant}\n" in text
        assert all(f"    not {variant}: {reason}\n" in text for variant, reason in step.choice.declined)
    for tensor, place in plan.places.items():  # 3: places
        first, last = plan.lives[tensor]
        where = f"{place.region.value} {place.offset}..{place.offset + tensor.nbytes} ({tensor.nbytes:,} bytes)"
        begin = f"operator {plan.nodes[first].index}" if first >= 0 else "the start"
        end = f"operator {plan.nodes[last].index}" if last < len(plan.nodes) else "the end"
        assert f"  {where}, live from {begin} to {end}: {tensor.name}\n" in text
    code = emit(plan, "m").code["m.c"]  # 4: the C
    assert "".join(f"twinfer: {line}\n" for line in code.splitlines()) in text


def test_lower_levels_say_less() -> None:
    said_by = [said("digits_int8", GENERIC, TWINFER_DEBUG=level).splitlines() for level in "01234"]
    assert said_by[0] == []
    for less, more in pairwise(said_by):
        assert len(less) < len(more)
        assert [line for line in more if line in less] == less
    assert "TWINFER_DEBUG may be 1, 2, 3 or 4, not much" in said("digits_int8", GENERIC, TWINFER_DEBUG="much")


def test_the_page(tmp_path: Path) -> None:
    page = tmp_path / "m.html"
    assert said("kws_int8", GENERIC, TWINFER_VIZ=str(page)) == ""
    made = page.read_bytes()
    environment = {**os.environ, "TWINFER_VIZ": str(page)}
    subprocess.run([sys.executable, "-c", "import twinfer"], env=environment, check=True)
    assert page.read_bytes() == made  # a process that plans nothing leaves it alone
    titles = [unescape(title) for title in re.findall("<h2>(.*?)</h2>", page.read_text())]
    assert titles[-len(STAGES) - 2 :] == ["kws", *(stage.name for stage in STAGES), "C"]
    assert "No such file" in said("kws_int8", GENERIC, TWINFER_VIZ=str(tmp_path / "none" / "m.html"))
