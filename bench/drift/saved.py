"""Where figures are kept: in a file of the user's, or by machine, name and model under ``.twinfer/bench``.

Either is the JSON document of ``twinfer bench --json``. pytest-benchmark keeps its figures much alike, with a number in
place of the name; here the newest replaces those before, because a version control system keeps these.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from twinfer.bench.drift.runs import Run, runs_of
from twinfer.bench.measure.report import SCHEMA
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.read.files import read_bytes, reading, write_text, writing

#: The folder below the current one: FOLDER/MACHINE/NAME/MODEL.json.
FOLDER = Path(".twinfer", "bench")

#: What of a machine decides how long a program takes.
_MACHINE = ("cpu", "cores", "isa")


@dataclass(frozen=True)
class Saved:
    """Figures of before, and the machine that they were measured on, as ``report.machine`` describes it."""

    path: Path
    machine: Mapping[str, Any]
    runs: Sequence[Run]


def is_file(place: str) -> bool:
    """Whether a place is a file; else it is a name. InvalidArgumentError if it can be neither."""
    if os.sep in place or place.endswith(".json"):
        return True
    if not re.fullmatch(r"\w[\w.-]*", place):
        raise InvalidArgumentError(
            f"{place!r} is no name: use letters, digits, _ and, between them, . and -; or a .json file"
        )
    return False


def same_machine(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether times that were taken on both can be compared."""
    return all(a.get(name) == b.get(name) for name in _MACHINE)


def save(document: Mapping[str, Any], place: str) -> list[Path]:
    """Keep the document of ``report.document``: in the file, or by name a file for every model. Returns the files.

    InvalidArgumentError for a place that cannot be written.
    """
    if is_file(place):
        write_text(place, json.dumps(document, indent=1) + "\n")
        return [Path(place)]
    models = dict.fromkeys(row["model"] for row in document["rows"])
    paths = [_path(document["machine"], place, model) for model in models]
    for path, model in zip(paths, models, strict=True):
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        own = {**document, "rows": [row for row in document["rows"] if row["model"] == model]}
        write_text(path, json.dumps(own, indent=1) + "\n")
    return paths


def saved(place: str, models: Sequence[str], machine: Mapping[str, Any]) -> list[Saved]:
    """The figures kept in a file, or under a name of these models: this machine's or, without such, the newest.

    InvalidArgumentError if there are none, and for files that ``save`` did not write.
    """
    if is_file(place):
        return [_read(Path(place))]
    paths = [path for model in models for path in _newest(machine, place, model)]
    if not paths:
        every = " ".join(models)
        raise InvalidArgumentError(
            f"no figures of {', '.join(models)} are kept as {place!r} in {FOLDER}: keep some first with "
            f"twinfer bench {every} --save {place}"
        )
    return [_read(path) for path in paths]


def _path(machine: Mapping[str, Any], name: str, model: str) -> Path:
    words = " ".join(str(machine.get(key)) for key in _MACHINE)
    return FOLDER / re.sub(r"\W+", "-", words).strip("-") / name / f"{quote(model, safe=' ')}.json"


def _newest(machine: Mapping[str, Any], name: str, model: str) -> list[Path]:
    """The one file of a model to compare with, if there is any."""
    own = _path(machine, name, model)
    others = (path for path in FOLDER.glob(f"*/{name}/{own.name}") if path != own)
    every = [*sorted(others, key=lambda path: path.stat().st_mtime), *([own] if own.exists() else [])]
    return every[-1:]


def _read(path: Path) -> Saved:
    content = read_bytes(path)
    with reading(path, "figures of twinfer bench"):
        document = json.loads(content)
        if document["schema"] != SCHEMA:
            raise InvalidArgumentError(
                f"{path}: its figures have form {document['schema']}, this version of twinfer reads form {SCHEMA}: "
                "measure and keep them anew with twinfer bench --save"
            )
        return Saved(path, dict(document["machine"]), runs_of(document["rows"]))
