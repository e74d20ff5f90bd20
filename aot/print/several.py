"""Several plans -> C that shares what it can: one instance of a kernel that two models call, one arena for all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import Project, banner_of, emit
from twinfer.aot.print.group import Group
from twinfer.aot.print.literals import check_name
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.plan.plan import Plan, Region


def emit_all(plans: Mapping[str, Plan], group: str, *, sha256: Mapping[str, str] | None = None) -> tuple[Project, ...]:
    """The C sources of several plans, by name; what they share is in ``common`` of each, and begins with ``group``.

    ``sha256`` is as for ``emit``, by name. Raises InvalidArgumentError if a name is no C
    identifier, if two models would define the same name, if they are planned for different targets or options, or if
    the target has several memories.
    """
    check_name(group)
    first = next(iter(plans.values()))
    for name, plan in plans.items():
        if (plan.target, plan.options) != (first.target, first.options):
            raise InvalidArgumentError(f"{name}: all models of {group} need the same target and the same options")
    if first.target.banks:
        raise InvalidArgumentError(f"{group}: {first.target.name} has several memories: compile its models one by one")
    alone = [emit(plan, name) for name, plan in plans.items()]
    users = Counter(kernel for project in alone for kernel in project.instances)
    shared = Group(
        group,
        tuple(plans),
        sorted(kernel for kernel, count in users.items() if count > 1),
        max(Memory(plan).nbytes(Region.ARENA) for plan in plans.values()),
        first.target.alignment,
        banner_of(first, group),
    )
    _check_apart(alone, shared)
    hashes = sha256 or {}
    return tuple(emit(plan, name, sha256=hashes.get(name, ""), group=shared) for name, plan in plans.items())


def _check_apart(projects: Sequence[Project], group: Group) -> None:
    """InvalidArgumentError if two models, or a model and the group, have a file or symbol of one name.

    ``projects`` are the models as each is alone: in a group they also name what is the group's.
    """
    names = {project.name: _names(project.name, project.code) for project in projects}
    for name, own in names.items():  # and what is made later: constants, the self-test and its program
        own |= {f"{name}_{made}".lower() for made in ("data.c", "test.c", "test")}
    everyone = [*names.items(), (group.name, _names(group.name, group.files) | {group.name.lower()})]
    for (one, its), (other, others) in combinations(everyone, 2):
        if clash := sorted(its & others):
            raise InvalidArgumentError(
                f"models {one!r} and {other!r} would both define {clash[0]!r}: rename a file, or choose another --name"
            )


def _names(name: str, code: Mapping[str, str]) -> set[str]:
    """The files of a model, in lower case, as some file systems compare them, and its symbols.

    Macros are the name's alone: all end in words that no model's name can supply, but for the guards of files.
    """
    own = {path: text for path, text in code.items() if not path.startswith("kernels/")}
    symbols = re.compile(rf"\b{re.escape(name)}_\w+")
    return {symbol for text in own.values() for symbol in symbols.findall(text)} | {path.lower() for path in own}
