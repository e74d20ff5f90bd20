"""New weights for a program that is there already: of a model with the same structure, for the code of a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any

from twinfer.aot.print.emit import Project, emit
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.target import Bank, Target


def recorded(plan: Plan) -> dict[str, Any]:
    """Target and options of a plan, for ``twinfer.json``: what another model must be planned with."""
    target = {key: getattr(plan.target, key) for key in (field.name for field in fields(Target))}
    target |= {"features": sorted(plan.target.features), "banks": [asdict(bank) for bank in plan.target.banks]}
    options = {field.name: getattr(plan.options, field.name) for field in fields(Options)}
    changed = {key: value for key, value in options.items() if value != getattr(USUAL, key)}
    return {"target": target, "options": changed}


def _planned_with(record: Mapping[str, Any]) -> tuple[Target, Options]:
    target = dict(record["target"])
    target["features"] = frozenset(target["features"])
    target["banks"] = tuple(Bank(**bank) for bank in target["banks"])
    return Target(**target), Options(**record["options"])


def weights_for(graph: Graph, folder: Path, name: str = "") -> Project:
    """The program of a model as that of the folder was made: its ``weights`` are for the code there.

    ``name`` says which model of a folder of several. InvalidArgumentError if the folder has no weights that can be
    replaced, or if the model's structure is another one: in which layer, and how.
    """
    try:
        described = json.loads((folder / "twinfer.json").read_text(encoding="utf-8"))
        target, options = _planned_with(described["plan"])
        names = [path.removesuffix("_structure.txt") for path in described["files"] if path.endswith("_structure.txt")]
    except (OSError, ValueError, KeyError, TypeError):
        how = "twinfer compile --weights-as blob, or paged, makes one"
        raise InvalidArgumentError(f"{folder} is no folder of a program whose weights can be replaced: {how}") from None
    if name and name not in names:
        raise InvalidArgumentError(f"{folder} has no model {name!r}, only {', '.join(names)}")
    if not name and len(names) > 1:
        raise InvalidArgumentError(f"{folder} has several models: say with --name for which: {', '.join(names)}")
    name = name or names[0]
    project = emit(make_plan(graph, target, options), name)
    old = (folder / f"{name}_structure.txt").read_text(encoding="utf-8")
    if old != project.structure:
        raise InvalidArgumentError(f"{graph.said} does not fit the code in {folder}: {_difference(old, project)}")
    return project


def _difference(old: str, project: Project) -> str:
    """The first line of two structures that differs, in words."""
    pairs = zip_longest(old.splitlines(), project.structure.splitlines(), fillvalue="nothing")
    was, now = next((a, b) for a, b in pairs if a != b)
    where, _, _ = was.partition(": ")
    if not now.startswith(where):
        return f"there is {was!r}, the new model has {now!r}"
    return f"{where} differs: {', '.join(_words(was, now))}; train with the same shapes and options, or compile anew"


def _words(was: str, now: str) -> Iterator[str]:
    """What differs between two lines."""
    pieces = [re.split(r", |: ", line.replace("{", "").replace("}", "")) for line in (was, now)]
    different = [(a.strip(), b.strip()) for a, b in zip_longest(*pieces, fillvalue="nothing") if a != b]
    named = [pair for pair in different if pair[0].startswith(".") and pair[1].startswith(".")] or different
    yield from (f"the code has {before}, the new model {after}" for before, after in named[:2])
