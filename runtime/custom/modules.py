"""The operators' modules of a user's folder: imported, and their rows checked."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from twinfer.runtime.errors import OperatorError, TwinferError
from twinfer.runtime.op import Op
from twinfer.runtime.ops.files import rows_of
from twinfer.runtime.variant import Declined, Variant


class Rows(NamedTuple):
    """What the modules of a folder define, with the file of each row."""

    ops: tuple[tuple[Path, Op], ...]
    variants: tuple[tuple[Path, Variant], ...]


def read_modules(folder: Path, package: str) -> Rows:
    """The rows of all modules of a folder that is the package ``package``; those of names with _ are left alone.

    OperatorError, which names the file, if a module raises or defines nothing.
    """
    importlib.invalidate_caches()
    files = [file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_")]
    ops, variants = list[tuple[Path, Op]](), list[tuple[Path, Variant]]()
    for file in files:
        module = _imported(file, f"{package}.{file.stem}")
        own = list(rows_of(module, "OP")), list(rows_of(module, "VARIANT"))
        if not any(own):
            raise OperatorError(
                f"{file}: it defines no OP, OPS, VARIANT or VARIANTS; a file that others import begins with _"
            )
        ops += [(file, _op(file, row)) for row in own[0]]
        variants += [(file, _variant(file, row)) for row in own[1]]
    return Rows(tuple(ops), tuple(variants))


def as_package(folder: Path, name: str) -> None:
    """Let the folder be a package of that name, so that its modules can import each other as ``from . import x``."""
    package = ModuleType(name, f"The operators in {folder}.")
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def forget(package: str) -> None:
    """Forget a package and its modules, so that they are read again."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


def _imported(file: Path, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise OperatorError(
            f"{file}: importing it raised {type(error).__name__}: {error}{_line(error, file)}"
        ) from error


def _line(error: BaseException, file: Path) -> str:
    """Where in the file an error arose, if it did."""
    lines = list[int]()
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" (line {lines[-1]})" if lines else ""


def _op(file: Path, row: Any) -> Op:
    _check_kind(file, row, Op)
    functions = ("infer", "reference", "lower", "cases")
    if not isinstance(row.name, str) or not row.name:
        raise OperatorError(f"{file}: the name of its operator is {row.name!r}; give it TFLite's, as CUSTOM:MyOp")
    for function in functions:
        if not callable(getattr(row, function)):
            raise OperatorError(f"{file}: {function} of {row.name} is no function")
    checked: Op = replace(row, **{name: _guarded(file, row.name, getattr(row, name)) for name in functions})
    return checked


def _variant(file: Path, row: Any) -> Variant:
    _check_kind(file, row, Variant)
    if not callable(row.lower):
        raise OperatorError(f"{file}: lower of the variant {row.name} is no function")
    checked: Variant = replace(row, lower=_guarded(file, f"the variant {row.name}", row.lower))
    return checked


def _check_kind(file: Path, row: Any, kind: type) -> None:
    if not isinstance(row, kind):
        raise OperatorError(f"{file}: it defines {type(row).__name__} where {kind.__name__}(...) is expected")


def _guarded(file: Path, owner: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; an error of its own code names the file."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            result = function(*arguments)
            return _listed(result) if isinstance(result, Iterator) else result
        except (TwinferError, Declined):
            raise
        except Exception as error:
            what = getattr(function, "__name__", "a function")
            said = f"{type(error).__name__}: {error}{_line(error, file)}"
            raise OperatorError(f"{file}: {what} of {owner} raised {said}") from error

    return call


def _listed(values: Iterator[Any]) -> Iterator[Any]:
    """What a generator gives, computed now."""
    return iter(list(values))
