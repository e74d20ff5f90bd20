"""Findings as files: the model, its inputs, and a test that fails until the fault is mended."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np

from twinfer.bench.fuzz.engines import QUICK
from twinfer.bench.fuzz.judge import Court, Finding
from twinfer.bench.known.model import Model
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.write.tflite import write

_TEST = '''"""{engine} differs from the interpreter, found with --seed {seed}: {detail}"""

from pathlib import Path

from twinfer.bench.fuzz.save import differences


def test_{name}() -> None:
    assert differences(Path(__file__).with_name("{name}.tflite"), {judges!r}, {tolerance!r}) == []
'''


def save(finding: Finding, folder: Path, seed: int) -> Path:
    """Writes NAME.tflite, NAME.npz with the inputs of every run, and test_NAME.py; returns the model's path."""
    folder.mkdir(parents=True, exist_ok=True)
    model = finding.model
    engine = finding.engine.partition(",")[0].replace("-", "_")
    name = re.sub(r"\W", "_", f"{model.name}_{engine}")
    arrays = {f"run{r}_{i}": value for r, inputs in enumerate(model.runs) for i, value in enumerate(inputs)}
    path = folder / f"{name}.tflite"
    path.write_bytes(write(model.graph))
    np.savez(folder / f"{name}.npz", runs=np.array(len(model.runs)), **arrays)  # type: ignore[arg-type]
    detail = finding.detail.splitlines()[0].replace("\\", "/").replace('"', "'")[:300]
    text = _TEST.format(
        engine=finding.engine, seed=seed, detail=detail, name=name, judges=model.judges, tolerance=model.tolerance
    )
    (folder / f"test_{name}.py").write_text(text)
    return path


def load(path: Path, judges: tuple[str, ...] = (), tolerance: float | None = 0.0) -> Model:
    """A saved model with its inputs."""
    graph = read_file(path)
    with np.load(path.with_suffix(".npz")) as stored:
        runs = tuple(tuple(stored[f"run{r}_{i}"] for i in range(len(graph.inputs))) for r in range(int(stored["runs"])))
    return Model(path.stem, graph, runs, judges, tolerance)


def differences(path: Path, judges: tuple[str, ...] = (), tolerance: float | None = 0.0) -> list[str]:
    """What differs in a saved model, one line for every engine; empty if all agree."""
    with tempfile.TemporaryDirectory(prefix="twinfer-fuzz-") as cache:
        court = Court(cache)
        try:
            (verdict,) = court.judged([load(path, judges, tolerance)], QUICK)
        finally:
            court.close()
    return [f"{finding.engine}: {finding.detail}" for finding in verdict.findings]
