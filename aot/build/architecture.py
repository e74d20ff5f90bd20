"""What is known of one kind of core and of its boards; a folder describes it.

A board folder has ``architecture.py`` with ``ARCHITECTURE``; ``port.c`` with the functions that ``board/harness.h``
asks for; the other C files that ``ARCHITECTURE`` names; and ``image.ld``, the linker's script for a model alone. With
``link.ld``, too, there is no operating system: programs have their own start-up code and are linked by that script.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from twinfer.aot.build.depth import Instructions
from twinfer.aot.build.toolchain import Gnu, Toolchain
from twinfer.runtime.errors import InvalidArgumentError, ToolError

#: The table of cards, what all boards share, and a folder for every architecture.
BOARDS = Path(__file__).resolve().parents[1] / "board"

#: The files of every program, beside those of its architecture.
HARNESS = ("harness.c", "harness.h", "semihost.h")

_MODULE = "architecture.py"


@dataclass(frozen=True)
class Pipeline:
    """LLVM's scheduling model of a core, and what it leaves out.

    ``triple`` and ``cpu`` name the model to LLVM; ``since`` is the oldest version of LLVM that was tried and has it.
    ``source`` says in words where the cycles come from. ``branch`` (mnemonic) are the cycles that a branch takes longer
    if it is taken. ``floor`` (mnemonic, operands, next mnemonic) is the least that an instruction takes.
    """

    triple: str
    cpu: str
    since: int
    source: str
    branch: Callable[[str], int]
    floor: Callable[[str, str, str], int] = lambda mnemonic, operands, following: 0


@dataclass(frozen=True)
class Architecture:
    """A board folder: what programs are built from, what builds, runs and reads them. What it leaves out is not there.

    ``runner`` makes the Runner of a card, ``toolchain`` its Toolchain. ``program``: the folder's C files for a program
    that does jobs, ``selftest``: those for a self-test, which prints. ``link``, ``link_alone``: further options to link
    a program, and a model alone. ``vector_bytes``: bytes before a program in flash. ``instructions``: how a disassembly
    is read, for bounds of the stack. ``tag``: bits that are set in the address of every function. ``pipeline`` tells
    the pipeline of a card's core, for estimates of cycles; None where nothing is known. ``package`` builds what callers
    take in place of C: the files of a model by name, and ``package_use`` is the README's section on it.
    """

    folder: Path
    program: tuple[str, ...]
    selftest: tuple[str, ...]
    runner: Callable[[Any], Any]
    instructions: Instructions | None = None
    tag: int = 0
    link: tuple[str, ...] = ()
    link_alone: tuple[str, ...] = ()
    vector_bytes: int = 0
    pipeline: Callable[[Any], Pipeline | None] = lambda card: None
    package: Callable[[Any, Any], Mapping[str, str | bytes]] = lambda project, card: {}
    package_use: str = ""
    toolchain: Callable[[Any], Toolchain] = lambda card: Gnu(card.compiler, card.binutils, card.packages)

    @property
    def bare(self) -> bool:
        """Whether there is no operating system: programs are linked by the folder's own script."""
        return (self.folder / "link.ld").exists()

    def linking(self, tools: Toolchain, folder: str = "") -> tuple[str, ...]:
        """The options to link a program; its script lies in ``folder``, "" or with a slash at the end."""
        return *tools.linking(f"{folder}link.ld" if self.bare else ""), *self.link

    def read(self, name: str) -> str:
        """The text of a file of the folder or, if there is none, of the folder that all boards share.

        ToolError if neither has it: without ``image.ld``, say, no sizes are known.
        """
        for path in (self.folder / name, BOARDS / name):
            if path.exists():
                return path.read_text(encoding="utf-8")
        raise ToolError(f"the board folder {self.folder} has no {name}")


@cache
def load(board: str) -> Architecture:
    """The architecture that a folder describes; ``board`` is the name of a folder of ours, or a path.

    The folder's code is run. InvalidArgumentError if there is no such folder, or it describes no architecture.
    """
    path = (Path(board) if "/" in board else BOARDS / board) / _MODULE
    if not path.exists():
        raise InvalidArgumentError(f"there is no board folder {board!r}: {path} is missing")
    try:
        module = _from_file(path) if "/" in board else import_module(f"twinfer.aot.board.{board}.architecture")
    except Exception as error:  # whatever the folder's code raises
        raise InvalidArgumentError(f"{path}: {type(error).__name__}: {error}") from error
    known = getattr(module, "ARCHITECTURE", None)
    if not isinstance(known, Architecture):
        raise InvalidArgumentError(f"{path} has no ARCHITECTURE that is an Architecture")
    return known


def _from_file(path: Path) -> ModuleType:
    """The module in a file outside of packages."""
    name = f"twinfer_board_{path.parent.name}_{abs(hash(path))}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
