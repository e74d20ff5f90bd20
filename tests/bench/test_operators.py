"""What ``make bench-ops`` shows: an operator at a time beside what CMSIS-NN was measured to take."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flows import Sub

from twinfer.bench.lab import operators
from twinfer.runtime.graph import Graph
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.write.tflite import write


def _lines(text: str) -> list[list[str]]:
    """The words of every line that has some."""
    return [line.split() for line in text.splitlines() if line.strip()]


def _recorded(folder: Path) -> list[dict[str, Any]]:
    """A file of four rows, and a model for each."""
    (folder / "ops").mkdir()
    rows: list[dict[str, Any]] = [
        {"name": "abs", "core": "cortex-m4", "cmsis_instructions": 400, "cmsis_other_instructions": 1000},
        {"name": "neg", "core": "cortex-m4", "cmsis_instructions": 3000, "cmsis_other_instructions": 200},
        {"name": "abs", "core": "cortex-m55", "cmsis_instructions": 50},
        {"name": "neg", "core": "cortex-m55", "cmsis_instructions": 1000},
    ]
    for name in ("abs", "neg"):
        (folder / "ops" / f"{name}.tflite").write_bytes(write(_single(name.upper())))
    (folder / "recorded.json").write_text(json.dumps({"rows": rows}))
    return rows


def _single(op: str) -> Graph:
    net = Sub(op)
    return net.graph([net.op(op, [net.input((1, 4))])])


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [((), (0, 1, 2, 3)), (("neg",), (1, 3)), (("--board", "cortex-m4"), (0, 1)),
     (("abs", "--board", "cortex-m55", "cortex-m4"), (0, 2))],
)  # fmt: skip
def test_operators_beside_those_recorded(
    arguments: tuple[str, ...],
    taken: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The better of CMSIS-NN's variants counts; the worst ratio comes first; bits are told, operator by operator."""
    recorded = _recorded(tmp_path)
    value = random_inputs(_single("ABS"), 0)[0]

    def run_jobs(firmware: Any, jobs: Any) -> Any:
        assert jobs[0].inputs[0].tobytes() == value.tobytes()
        project, card = firmware
        assert project.plan.target == card.target
        wrong = project.plan.graph.nodes[0].op == "NEG" and card.name == "cortex-m4"
        right = np.abs(value) if project.plan.graph.nodes[0].op == "ABS" else -value
        return [SimpleNamespace(counts=[500, 9], outputs=(right + np.float32(wrong),))]

    monkeypatch.setattr(operators, "build", lambda project, card: (project, card))
    monkeypatch.setattr(operators, "run_jobs", run_jobs)
    monkeypatch.setenv("COLUMNS", "150")
    file = tmp_path / "ops.json"
    names = [text for text in arguments if text in ("abs", "neg")]
    rest = [text for text in arguments if text not in names]
    monkeypatch.setattr("sys.argv", ["operators", str(tmp_path / "recorded.json"), *names, "--json", str(file), *rest])
    operators.main()
    best = [400, 200, 50, 1000]
    rows = json.loads(file.read_text())["rows"]
    assert [(row["name"], row["core"]) for row in rows] == [(recorded[i]["name"], recorded[i]["core"]) for i in taken]
    assert [row["cmsis_instructions"] for row in rows] == [best[i] for i in taken]
    assert [(row["instructions"], row["ratio"]) for row in rows] == [(500, 500 / best[i]) for i in taken]
    assert [row["same_bits"] for row in rows] == [i != 1 for i in taken]
    assert all(len(row["kernels"]) == 1 and row["name"] in row["kernels"][0] for row in rows)
    shown, want = _lines(capsys.readouterr().out), []
    for core in ("cortex-m4", "cortex-m55"):
        own = sorted((i for i in taken if recorded[i]["core"] == core), key=lambda i: best[i])
        for i in own:
            kernel = rows[taken.index(i)]["kernels"][0]
            ratio = f"{500 / best[i]:.3f}"
            want.append([recorded[i]["name"], f"{best[i]:,}", "500", ratio, kernel, "DIFFER" if i == 1 else "same"])
        if own:
            mean = np.exp(np.mean([np.log(500 / best[i]) for i in own]))
            want.append(["geometric", "mean", f"{mean:.3f}"])
    assert [line for line in shown if line[0] in ("abs", "neg", "geometric")] == want
