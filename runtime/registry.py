"""Finds operators and their variants: a module in a family of ``runtime/ops`` ends with ``OP = Op(...)`` or
``VARIANT = Variant(...)``, or with several, ``OPS = (...)`` or ``VARIANTS = (...)``.

A model imports the files of its own operators (``runtime/ops/files.py`` says which), not those of all.
Folders of the user's own hold such modules, too. ``register`` names them, and so do the environment variable
TWINFER_OPERATORS and entry points of installed packages.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from twinfer import kernels_c
from twinfer.runtime import ops
from twinfer.runtime.control import CONTROL
from twinfer.runtime.custom.places import name_folder, named_folders, packages, resolved, unname_folder
from twinfer.runtime.errors import OperatorError, ToolWarning, UnsupportedOperatorError
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Op
from twinfer.runtime.ops.core.unsigned import STACKED
from twinfer.runtime.ops.files import OPERATORS, may_serve, rows_of
from twinfer.runtime.printable import printable
from twinfer.runtime.target import FEATURES, Target
from twinfer.runtime.variant import Declined, Lower, Variant

if TYPE_CHECKING:
    from twinfer.runtime.custom.load import Folder
    from twinfer.runtime.program import Call

#: Packages of ``runtime/ops`` that hold what operators share.
SHARED = ("core", "isa")

#: Features that names of modules tell: a process whose target lacks one never imports what needs it.
FOR = frozenset(feature.name for feature in FEATURES.values() if feature.in_names)

#: Folders of the user's own, in the order in which they were registered.
_ADDED: list[Folder] = []

_LOCK = RLock()


@cache
def operators() -> Mapping[str, Op]:
    """All operators by TFLite name. Modules whose name starts with an underscore hold what a family shares."""
    _discover()
    own = {op.name: op for file in _files() if not needed(file) for op in _rows(file, "OP")}
    return own | {op.name: op for folder in _ADDED for _, op in folder.rows.ops}


def find(name: str) -> Op | None:
    """The operator of that name; None if twinfer has none. Only files that may hold it are imported."""
    return operators().get(name) if operators.cache_info().currsize else _found(name)


@cache
def _found(name: str) -> Op | None:
    if name in CONTROL:
        return None
    _discover()
    own = (op for file in _files() if name in OPERATORS.get(file, ()) for op in _rows(file, "OP"))
    added = (op for folder in _ADDED for _, op in folder.rows.ops)
    return next((op for op in chain(own, added) if op.name == name), None) or operators().get(name)


def variants(name: str, target: Target | None = None) -> tuple[Variant, ...]:
    """The variants of an operator, best first, of those that ``target`` can run; empty if there is only plain C."""
    return _variants(name, None if target is None else target.features)


@cache
def _variants(name: str, features: frozenset[str] | None) -> tuple[Variant, ...]:
    _discover()
    files = [file for file in _files() if may_serve(file, name)]
    rows = [row for file in files if features is None or needed(file) <= features for row in _rows(file, "VARIANT")]
    rows += [row for folder in _ADDED for _, row in folder.rows.variants]
    rows = [row for row in rows if features is None or row.needs <= features]
    return tuple(sorted((row for row in rows if name in (*row.ops, *row.also)), key=lambda row: row.rank(name)))


def attempts(node: Node, target: Target) -> Iterator[tuple[Variant, Call | Declined]]:
    """Every variant that serves the node, with its call or the reason why there is none. ``infer`` must have agreed."""
    asked = set[Lower]()
    for variant in variants(operator(node).name, target):
        if variant.lower in asked or not variant.serves(node):
            continue
        asked.add(variant.lower)
        try:
            yield variant, variant.lower(node, target)
        except Declined as reason:
            yield variant, reason


def register(path: str | os.PathLike[str]) -> None:
    """Add the operators of a folder of the user's own: kernels' headers, operators' and variants' modules.

    From here on everything takes them as twinfer's own: interpreter, compiled C, microcontrollers, verify, bench.
    Processes that this one starts know them, too (TWINFER_OPERATORS). The kernels are compiled now, unless the cache
    folder has them. A folder that is registered already is left alone. OperatorError, which names the file, if one is
    wrong or a name is taken; ToolError if there is no C compiler or it refuses a kernel.
    """
    folder = resolved(path)
    with _LOCK:
        operators()
        _register(folder)
    name_folder(folder)


def unregister(path: str | os.PathLike[str]) -> None:
    """Forget a folder, so that ``register`` reads its files again; what is already planned or loaded stays."""
    place = resolved(path)
    with _LOCK:
        for folder in [folder for folder in _ADDED if folder.path == place]:
            kernels_c.remove(folder.library)
            _ADDED.remove(folder)
            folder.forget()
    unname_folder(place)
    forget_known()


def _register(path: Path) -> None:
    if all(path != folder.path for folder in _ADDED):
        from twinfer.runtime.custom.load import load

        folder = load(path)
        try:
            _check(folder)
            folder.library.compile()
        except BaseException:
            folder.forget()
            raise
        _add(folder)


def _check(folder: Folder) -> None:
    """OperatorError if a name of an operator is taken, or a variant is of no operator."""
    known = {**dict.fromkeys((*CONTROL, *operators()), "twinfer itself")}
    known |= {op.name: str(file) for other in _ADDED for file, op in other.rows.ops}
    for file, op in folder.rows.ops:
        if op.name in known:
            raise OperatorError(f"{file}: the name {op.name} is taken by {known[op.name]}")
        known[op.name] = str(file)
    for file, variant in folder.rows.variants:
        for name in (*variant.ops, *variant.also):
            if name not in known or name in CONTROL:
                raise OperatorError(f"{file}: the variant {variant.name} is of {name}, which is no known operator")


def _add(folder: Folder) -> None:
    kernels_c.add(folder.library)
    _ADDED.append(folder)
    forget_known()


def forget_known() -> None:
    """Let operators and variants be looked up anew."""
    for known in (operators, _found, _variants, _files):
        known.cache_clear()


_looked = False


def _discover() -> None:
    """Register, once, the folders that the environment names, and those of installed packages.

    A package whose operators are wrong is left out with a ToolWarning: it must not keep others from running models.
    """
    global _looked
    with _LOCK:
        if _looked:
            return
        _looked = True
        try:
            for path in named_folders():
                _register(path)
        except BaseException:
            _looked = False
            raise
        for entry in packages():
            from twinfer.runtime.custom.load import load_package

            try:
                folder = load_package(entry)
                if all(folder.path != other.path for other in _ADDED):
                    _check(folder)
                    _add(folder)
            except Exception as error:
                said = printable(f"the operators of {entry.value} are left out: {error}")
                warnings.warn(ToolWarning(said), stacklevel=2)


def needed(file: str) -> frozenset[str]:
    """The features of ``FOR`` that all variants of a file need, by its name: ``conv2d_dsp_s16`` needs "dsp"."""
    return FOR.intersection(file.rpartition(".")[2].split("_"))


def _rows(file: str, kind: str) -> tuple[Any, ...]:
    return rows_of(import_module(f"{ops.__name__}.{file}"), kind)


@cache
def _files() -> tuple[str, ...]:
    """The names of all modules that define operators or variants, each behind that of its family: ``conv.conv2d``."""
    found = list[str]()
    for family in sorted(name for folder in ops.__path__ for name in os.listdir(folder)):
        if "." not in family and family[0] != "_" and family not in SHARED:
            folders = import_module(f"{ops.__name__}.{family}").__path__
            names = sorted(name for folder in folders for name in os.listdir(folder))
            found += [f"{family}.{name[:-3]}" for name in names if name.endswith(".py") and name[0] != "_"]
    return tuple(found)


#: What helps where an operator is missing: one of these names, any other custom one, or any other.
_HINTS = {
    "CUSTOM:ethos-u": "it is code for an Ethos-U NPU, as Vela compiles it: give the model from before Vela",
    "CUSTOM": "register the folder that has its kernel (twinfer.register), or give the model from before it was put in",
    "": "rewrite the model without it, or give a kernel of your own (twinfer.register)",
}


def operator(node: Node) -> Op:
    """The operator of a node, or the table that it has become; UnsupportedOperatorError if twinfer has none."""
    if STACKED in node.options:
        from twinfer.runtime.ops.functions import _table

        if _table.stacked_of(node):
            return _table.OP
    op = find(node.op)
    if op is None:
        tensor = next((t for t in (*node.inputs, *node.outputs) if t is not None), None)
        hint = _HINTS.get(node.op, _HINTS["CUSTOM" if node.op.startswith("CUSTOM:") else ""])
        raise UnsupportedOperatorError(f"{node}: twinfer has no kernel for {node.op} ({tensor}); {hint}")
    return op


def keeps_state(node: Node) -> bool:
    """Whether the node's operator keeps a state of its own from run to run."""
    op = find(node.op)
    return op is not None and op.keeps_state


def missing(nodes: Iterable[Node]) -> list[Node]:
    """The nodes whose operator twinfer does not know."""
    return [node for node in nodes if node.op not in CONTROL and find(node.op) is None]
