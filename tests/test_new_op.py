"""``make new-op``: what it writes is an operator that works."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from needs import ROOT
from new_op import make


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("kernels_c/move", "runtime/ops/move", "converter/operators"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "kernels_c" / "core").symlink_to(ROOT / "kernels_c" / "core")
    shutil.copy(ROOT / "converter" / "operators" / "move.py", tmp_path / "converter" / "operators")
    return tmp_path


def test_what_is_written_works(project: Path) -> None:
    header, module, table = make("DILATE", "move", project)
    check = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-include", str(header)]
    subprocess.run([*check, "/dev/null"], check=True)
    there: dict[str, object] = {}
    exec(compile(module.read_text(), str(module), "exec", dont_inherit=True), there)
    op = there["OP"]
    assert op.name == "DILATE"  # type: ignore[attr-defined]
    for case in op.cases(np.random.default_rng(0)):  # type: ignore[attr-defined]
        assert op.infer(case.node) == [case.node.output.shape]  # type: ignore[attr-defined]
    (rows,) = (
        each.value
        for each in ast.parse(table.read_text()).body
        if isinstance(each, ast.Assign) and each.targets[0].id == "ROWS"
    )  # type: ignore[attr-defined]
    assert ast.literal_eval(rows.keys[-1]) == "DILATE"  # type: ignore[attr-defined]


def test_what_is_refused(project: Path) -> None:
    make("DILATE", "move", project)
    for name, family, message in (
        ("DILATE", "move", "DILATE is there already"),
        ("TILE", "move", "TILE is there already"),
        ("a-b", "move", "needs TFLite's name"),
        ("DILATE", "moves", "no family moves; there are: move"),
    ):
        with pytest.raises(ValueError, match=message):
            make(name, family, project)
