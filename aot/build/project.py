"""A folder that builds on its own: sources of models, the kernels they use, a Makefile, a README, self-tests."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from twinfer.aot.build import boards, depth, update
from twinfer.aot.build.fits import check_fit_together, check_fits
from twinfer.aot.build.layout import Layout, arranged, filled, use
from twinfer.aot.build.targets import Card
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import Project, emit, version
from twinfer.aot.print.interface import Stack
from twinfer.aot.print.layer_functions import kernel_counts
from twinfer.aot.print.literals import comment, grouped
from twinfer.aot.print.run import entries
from twinfer.aot.print.run_layers import MACRO as PARTS
from twinfer.aot.print.selftest import test_source, vectors
from twinfer.aot.print.several import emit_all
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.read.files import check_folder, writing
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.tools import write_files

#: The list of files that this tool wrote: other people's folders are never overwritten.
MANIFEST = "twinfer.json"

#: The folder that the Makefile makes; it may be removed, as may what Python makes in ESPHome's component.
BUILD = "build"

#: The licence of this tool's own texts; only the user knows that of a model's values.
_OURS, _USERS = "Apache-2.0", "LicenseRef-model"

_TEMPLATES = Path(__file__).resolve().parent / "templates"


def write_project(
    plan: Plan,
    name: str,
    folder: str | os.PathLike[str],
    *,
    sha256: str = "",
    stack_bytes: int | None = None,
    card: Card | None = None,
    layout: Layout = "plain",
    beside: Mapping[str, str | bytes] | None = None,
) -> Project:
    """Write the project of a plan to ``folder``; after an error nothing there has changed.

    With ``card`` the self-test runs on its board, and the header has the stack of a run (``stack_bytes``; None: it is
    computed). ``layout`` says for which tool the folder is, ``beside`` are further files that go into it.
    ``sha256`` is the model file's. The self-test's inputs are random, with a fixed seed. A folder of an
    earlier run is replaced; InvalidArgumentError if it holds anything that twinfer did not write, ToolError if the
    model does not fit the card's memory.
    """
    target = Path(os.path.realpath(folder))
    check_replaceable(Path(folder))
    project = emit(plan, name, sha256=sha256)
    if stack_bytes is not None:
        project = project.with_stack(Stack(stack_bytes))
    if card is not None:
        check_fits(project, card)
        if stack_bytes is None:
            project = project.with_stack(boards.worst_stack(project, card))
        boards.check_code(project, card)
        beside = {**(beside or {}), **(boards.packages([project], card) if layout == "plain" else {})}
    files = folder_files(name, [(project, random_inputs(plan.graph))], card, layout, beside)
    with writing(folder):
        put(target, files)
    return project


def write_all(
    models: Sequence[tuple[str, Plan, str]],
    group: str,
    folder: str | os.PathLike[str],
    *,
    card: Card | None = None,
    layout: Layout = "plain",
    beside: Mapping[str, str | bytes] | None = None,
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
        projects = tuple(project.with_stack(boards.worst_stack(project, card)) for project in projects)
        for project in projects:
            boards.check_code(project, card)
        beside = {**(beside or {}), **(boards.packages(projects, card) if layout == "plain" else {})}
    tested = [(project, random_inputs(project.plan.graph)) for project in projects]
    files = folder_files(group, tested, card, layout, beside)
    with writing(folder):
        put(Path(os.path.realpath(folder)), files)
    return projects


def put(target: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the files to the folder, in place of all that were there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".twinfer-", dir=target.parent) as work:
        new = Path(work) / "new"
        write_files(new, files)
        if not target.exists():
            os.rename(new, target)
            return
        for path in list(_present(target)):  # the folder itself stays: it may be somebody's working directory
            (target / path).unlink()
        for path in files:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(new / path, target / path)


def _present(target: Path) -> Iterator[str]:
    """Paths of the files below a folder, in no order."""
    for folder, folders, files in os.walk(target):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (os.path.relpath(os.path.join(folder, name), target) for name in sorted(links + files))


def check_replaceable(target: Path) -> None:
    """InvalidArgumentError unless ``target`` is empty, as this tool left it, or absent and can be made."""
    check_folder(target)
    ours = _written(target)
    made = re.compile(rf"{BUILD}/|(.*/)?__pycache__/")
    foreign = (path for path in _present(target) if path not in ours and not made.match(path))
    if first := next(foreign, None):  # stop at the first: this may be somebody's home
        raise InvalidArgumentError(f"{target} holds {first!r}, not made by twinfer: name another folder")


def _written(target: Path) -> set[str]:
    try:
        listed = json.loads((target / MANIFEST).read_text(encoding="utf-8"))["files"]
        return {MANIFEST, *(str(name) for name in listed)}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def project_files(project: Project, inputs: Sequence[Array], card: Card | None = None) -> dict[str, str | bytes]:
    """Everything that goes into the folder of one model, by path."""
    return folder_files(project.name, [(project, inputs)], card)


def folder_files(
    group: str,
    models: Sequence[tuple[Project, Sequence[Array]]],
    card: Card | None = None,
    layout: Layout = "plain",
    beside: Mapping[str, str | bytes] | None = None,
) -> dict[str, str | bytes]:
    """Everything that goes into a folder, by path: models with their self-tests' inputs; ``group`` is its library.

    Only the plain layout has the self-tests and the board's files. ``beside`` are further files.
    """
    sources: dict[str, str] = {}
    projects = [project for project, _ in models]
    for project, inputs in models:
        sources |= project.files
        if layout == "plain":
            sources[_test(project)] = test_source(project, vectors(project.plan, inputs))
    terms = {f"{project.name}_data.c": _USERS for project in projects}
    terms |= {_test(project): f"{_OURS} AND {_USERS}" for project in projects}
    marked: dict[str, str] = {}
    for path, text in sources.items():  # kernels stay as they are: a user's own are the user's
        plain = path.startswith("kernels/") or text.startswith("/* SPDX-")
        marked[path] = text if plain else f"/* SPDX-License-Identifier: {terms.get(path, _OURS)} */\n{text}"
    facts = _folder_facts(group, projects, sorted(sources), card)
    if layout == "plain":
        facts = {**facts, "build": _filled("build.md", facts)}
        files: dict[str, str | bytes] = {**marked, **(boards.sources(card) if card else {})}
        files |= {template: _filled(template, facts) for template in ("Makefile", "CMakeLists.txt")}
        if card and beside:
            facts["build"] += filled(card.architecture.package_use, facts)
    else:
        facts = {**facts, "vectors": "", "build": use(layout, group, projects)}
        files = {**arranged(layout, marked, group, facts["banner"], projects)}
    files |= beside or {}
    files["README.md"] = _filled("README.md", facts)
    files["stack.py"] = Path(depth.__file__).read_text(encoding="utf-8")
    files["LICENSE"] = (_TEMPLATES / "LICENSE").read_text(encoding="utf-8")
    for project in projects:
        if project.constants.blob:
            files[f"{project.name}_weights.bin"] = project.weights
            files[f"{project.name}_structure.txt"] = project.structure
    first, *others = projects
    options, hashes = first.plan.options, {project.name: project.sha256 for project in projects}
    described = {
        "tool": version(),
        "license": _OURS,
        "target": first.plan.target.name,
        "optimize": options.optimize,
        **({} if options.weights == "file" else {"weights": options.weights, "decode": options.decode}),
        **({} if options.weights_as == "linked" else {"plan": update.recorded(first.plan)}),
        "mode": first.mode,
        **({} if layout == "plain" else {"layout": layout}),
        **({"models": hashes} if others else {"model_sha256": first.sha256}),
        "files": sorted(files),
    }
    files[MANIFEST] = json.dumps(described, indent=1) + "\n"
    return files


def _test(project: Project) -> str:
    """The file of a model's self-test."""
    return f"{project.name}_test.c"


def _filled(template: str, values: Mapping[str, str]) -> str:
    """A template with ``values`` in the places that name them."""
    return filled((_TEMPLATES / template).read_text(encoding="utf-8"), values)


def _folder_facts(
    group: str, projects: Sequence[Project], paths: Sequence[str], card: Card | None
) -> Mapping[str, str]:
    """Values for the templates of a folder; ``paths`` are its generated sources."""
    first, *others = projects
    tests = {_test(project) for project in projects}
    sources = [path for path in paths if path.endswith(".c") and "/" not in path and path not in tests]
    tables, calls = zip(*(_of_model(project, group if others else None) for project in projects), strict=True)
    banner = f"{group}: made by twinfer {version()}" if others else first.banner
    name, apart = "NAME" if others else first.name, first.plan.options.weights_as != "linked"
    return {
        **boards.building(card, first.plan),
        "banner": banner.removeprefix("/* ").removesuffix(" */"),
        "group": group,
        "GROUP": group.upper(),
        "name": name,
        "NAME": name.upper(),
        "sources": " ".join(sources),
        "objects": " ".join(f"build/{path.removesuffix('.c')}.o" for path in sources),
        "models": " ".join(project.name for project in projects),
        "entries": "\n".join(
            f"ENTRIES_{p.name} = {' '.join(entries(p.plan, p.name))} $(PARTS:%={p.name}_%)" for p in projects
        ),
        "parts": PARTS,
        "prefixes": f"{name}_ {group}_ tw_" if others else f"{name}_ tw_",
        "selftests": "the self-tests of all models" if others else "the self-test",
        "training": _filled(f"training{'_apart' if apart else ''}.md", {"name": name}).strip(),
        "tables": "".join(tables),
        "sharing": _sharing(group, projects),
        "vectors": f", and the inputs and outputs in `{name}_test.c`,",
        "calls": "".join(calls),
    }


def _of_model(project: Project, group: str | None) -> tuple[str, str]:
    """What the README says of a model: its tables, and how it is called; ``group`` is that whose arena it takes."""
    facts = _facts(project, group)
    head = f"## {project.name}\n\n" if group else ""
    return head + _filled("model_table.md", facts), _filled("model_call.md", facts)


def _sharing(group: str, projects: Sequence[Project]) -> str:
    """The sentences on memory that models share."""
    free = "Nothing in the arena lasts from one run to the next: several models may use one, in turn."
    kept = " The state is the model's own: it keeps what has to last." if projects[0].plan.state_bytes else ""
    if len(projects) == 1:
        return free + kept
    up = group.upper()
    common = f"Kernels that several models call through one instance are in `{group}_kernels.c`."
    return f"""{free} States are apart.
`{group}.h` has the size and the alignment of an arena for all models, `{up}_ARENA_BYTES` and `{up}_ARENA_ALIGN`, and
`{group}_static.c` has one. Outputs that you leave in the arena are lost when another model runs. Below, NAME stands for
the name of a model. {common if f"{group}_kernels.c" in projects[0].common else ""}""".rstrip()


def _facts(project: Project, group: str | None) -> Mapping[str, str]:
    plan, stack = project.plan, project.stack
    kernels = kernel_counts(plan)
    return {
        "name": project.name,
        "NAME": project.name.upper(),
        "memory": _memory(plan),
        "constants": grouped(project.constants.nbytes),
        "macs": grouped(plan.macs),
        "layers": str(len(plan.steps)),
        "kernels": ", ".join(f"{kernel} ×{count}" for kernel, count in kernels.items()) or "none",
        "inputs": _table(plan.graph.inputs),
        "outputs": _table(plan.graph.outputs),
        "stack": f"{grouped(stack.nbytes)} bytes: {' '.join(stack.about)}" if stack else "`make stack` tells it",
        **_calling(project, group),
    }


def _memory(plan: Plan) -> str:
    """The rows on memory of the first table."""
    only = "" if plan.state_bytes or plan.target.banks else "; the only memory that is written"
    bound = f"no placement of these tensors needs less than {grouped(plan.lower_bound_bytes)}"
    if plan.target.banks:
        bound = "blocks with more traffic lie in cheaper memory"
    memory = Memory(plan)
    rows = [
        f"| {region.value} | {grouped(memory.nbytes(region))} bytes, aligned to {plan.target.alignment} "
        f"({bound}){only} |"
        for region in plan.arenas
    ]
    if plan.state_bytes:
        rows.append(
            f"| state | {grouped(memory.nbytes(Region.STATE))} bytes, aligned likewise, that last from run to run |"
        )
    return "\n".join(rows)


def _calling(project: Project, group: str | None) -> Mapping[str, str]:
    """What the section on calls says of memory."""
    name, memory = project.name, Memory(project.plan)
    blocks = [region.value for region in memory.blocks]
    given = [*blocks, *([f"{name}_weights"] if memory.weights else [])]
    defined = [
        f"    _Alignas({name.upper()}_ARENA_ALIGN) static unsigned char {block}[{name.upper()}_{block.upper()}_BYTES];"
        for block in blocks
    ]
    if group:
        defined[0] = f"    void *const arena = {group}_arena();"
    needed = ", ".join(f"{name}_weights" if r == Region.WEIGHTS else r.value for r in memory.start_regions)
    reset = f"    {name}_reset({needed}); /* once, and to begin anew */\n"
    return {
        "blocks": "\n".join(defined),
        "arguments": ", ".join(given),
        "reset": reset if project.plan.state_bytes else "",
    }


def _table(tensors: Sequence[Tensor]) -> str:
    rows = []
    for i, t in enumerate(tensors):
        quant = f"{t.scale:.9g}, {t.zero}" if t.quant is not None and t.quant.scale.size == 1 else "-"
        label = comment(t.name).replace("`", "'").replace("|", "/")
        rows.append(f"| {i} | `{label}` | {t.type} | {list(t.shape)} | {quant} |")
    return "\n".join(rows)
