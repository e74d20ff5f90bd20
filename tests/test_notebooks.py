"""The notebooks of docs/notebooks run from the first cell to the last, and are stored without outputs.

Without outputs a change of a notebook is read as a change of code, and no figure in it is out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from needs import ROOT, deep_but, needs

needs("nbclient", "ipykernel", "nbformat")

import nbformat  # noqa: E402

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

#: Packages that a notebook needs beside those of every test.
NEEDS = {"pytorch_to_cortex_m4": ("torch", "onnxscript")}

#: The longest that a cell may take, in seconds.
PATIENCE_S = 300


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels write nothing outside of the test's folder, find this checkout, and are of this Python."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    return tmp_path


def executed(path: Path, folder: Path) -> Any:
    """The notebook with outputs; nbclient raises CellExecutionError for a cell that fails."""
    from nbclient import NotebookClient

    where = {"metadata": {"path": str(folder)}}
    return NotebookClient(read(path), timeout=PATIENCE_S, kernel_name="python3", resources=where).execute()


def outputs(notebook: Any) -> str:
    """All that the cells show, as text."""
    every = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(str(output.get("text", "")) + str(output.get("data", "")) for output in every)


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("path", deep_but(NOTEBOOKS, FOLDER / "host.ipynb"), ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, kernels: Path) -> None:
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    said = outputs(executed(path, kernels))
    assert not [text for text in SHOWN[path.stem] if text not in said], said


#: What the outputs of a notebook have in them, whatever this computer is.
SHOWN = {
    "host": {"<b>Graph digits</b>: 8 operators", "<b>Plan digits</b>", "(0, 'CONV_2D', 9216)", "array([["},
    "pytorch_to_cortex_m4": {"<b>Plan", "for cortex-m4: arena", "quarters_run(", "'flash': ", "'instructions': "},
    "interpreted_against_compiled": {"| layer | interpreted | compiled |", "| total |", "True", "(True, True)", " µs"},
}


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert path.read_text(encoding="utf-8") == f"{nbformat.writes(notebook, indent=1)}\n", "saved in another form"
