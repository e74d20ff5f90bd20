"""A folder of several models that share kernels and an arena: one library, and a self-test of each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from twinfer.aot.build import boards
from twinfer.aot.build.fits import check_fit_together, check_fits
from twinfer.aot.build.project import check_replaceable, folder_files, put
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import Project
from twinfer.aot.print.several import emit_all
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.files import writing
from twinfer.runtime.run.inputs import random_inputs


def write_all(
    models: Sequence[tuple[str, Plan, str]], group: str, folder: str | os.PathLike[str], *, card: Card | None = None
) -> tuple[Project, ...]:
    """Write models, given as name, plan and SHA-256 of the file, to ``folder``; after an error nothing has changed.

    What they share begins with ``group``. Raises as ``write_project`` does, and InvalidArgumentError if names clash,
    ToolError if the models together do not fit the card's memory.
    """
    twice = [name for name, count in Counter(name for name, _, _ in models).items() if count > 1]
    if twice:
        raise InvalidArgumentError(f"two models are called {twice[0]!r}: rename a file, functions are named after it")
    check_replaceable(Path(folder))
    plans, hashes = {name: plan for name, plan, _ in models}, {name: sha256 for name, _, sha256 in models}
    projects = emit_all(plans, group, sha256=hashes)
    if card is not None:
        for project in projects:
            check_fits(project, card)
        check_fit_together(projects, card)
        stacks = {project.name: boards.worst_stack(project, card) for project in projects}
        projects = emit_all(plans, group, sha256=hashes, stacks=stacks)
        for project in projects:
            boards.check_code(project, card)
    files = folder_files(group, [(project, random_inputs(project.plan.graph)) for project in projects], card)
    with writing(folder):
        put(Path(os.path.realpath(folder)), files)
    return projects
