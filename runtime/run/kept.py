"""Model files that were planned before: graph and plan come from the user's cache folder.

Reading and planning takes five times as long as loading what came of it, and needs most of twinfer's modules. A kept
file holds the model's own bytes and says what it was planned for; both must be the same, byte by byte. What is missing,
damaged, or of another version is made anew.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import stat
import sys
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from twinfer import kernels_c
from twinfer.runtime import BEGUN, cache
from twinfer.runtime.custom import places
from twinfer.runtime.errors import ModelWarning, ToolError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.files import read_bytes
from twinfer.runtime.run import isa
from twinfer.runtime.run.kept_file import Loader, Saver, joined, parts_of

#: The environment variable that turns all of this off: 0.
VARIABLE = "TWINFER_KEEP_PLANS"

#: The most bytes of a model, of a file that is kept of one, and of all of them: what was not used for longest goes.
MOST_OF_A_MODEL, MOST_OF_A_FILE, MOST_OF_ALL = 2**26, 2**27, 2**28

#: What a value raises that cannot be pickled.
NOT_PICKLED = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


class ModelFile:
    """A .tflite file for this computer and ``options``: its graph, and the plan of it.

    Raises what ``read_file`` does, and warns as it does. A model is not kept if it is very large, if it is watched or
    tuned, or where operators of the user's own may take part.
    """

    def __init__(self, path: str | os.PathLike[str], options: Options) -> None:
        self._content, self._name, self._options = read_bytes(path), Path(path).stem, options
        self._plan: Plan | None
        kept = entry.load() if (entry := self._entry()) else None
        self.graph, self._repaired, self._plan = kept or (*_parsed(self._content, self._name), None)
        if self._repaired:
            warnings.warn(self._repaired, ModelWarning, stacklevel=3)

    def plan(self) -> Plan:
        """The plan of the graph as it is in the file. Raises what ``make_plan`` does."""
        if self._plan is None:
            from twinfer.runtime.plan.make import make_plan

            self._plan = make_plan(self.graph, isa.this_computer(), self._options)
            if entry := self._entry():
                entry.save(self.graph, self._repaired, self._plan)
        self._content = b""  # the entry was the last to need it
        return self._plan

    def _entry(self) -> _Entry | None:
        """Where the plan is kept now; None if it depends on more than the model, the options and this computer."""
        options, content = self._options, self._content
        if os.environ.get(VARIABLE) == "0" or options.tuned or options.guard or len(content) > MOST_OF_A_MODEL:
            return None
        if _own_operators() or not (version := _version()):
            return None
        with suppress(ToolError):  # no folder of the user's own
            return _Entry(_told(self._name, options, version), content)
        return None


class _Entry:
    """What the folder has of a model's bytes, for what ``told`` tells."""

    def __init__(self, told: bytes, content: bytes) -> None:
        self._told, self._content = told, content
        self._place = cache.folder("plans") / f"{zlib.crc32(told):08x}{zlib.crc32(content):08x}.plan"

    def load(self) -> tuple[Graph, str, Plan] | None:
        """The graph, what was repaired in it, and its plan, if they are there and whole."""
        try:
            if (data := cache.load(self._place)) is None:
                return None
            data.flags.writeable = False
            told, content, pickled, *arrays = parts_of(data.data)
            if told != self._told or content != self._content:
                return None
            graph, repaired, plan = Loader(io.BytesIO(pickled), buffers=arrays).load()
        except Exception:  # whatever a damaged file leads to
            return None
        with suppress(OSError):  # others' folders can be read, too
            os.utime(self._place)
        return graph, repaired, plan

    def save(self, graph: Graph, repaired: str, plan: Plan) -> None:
        """Keep all three; nothing is kept without a folder that can be written, or of values that cannot be pickled."""
        arrays: list[pickle.PickleBuffer] = []
        pickled = io.BytesIO()
        with suppress(OSError, MemoryError, ToolError, *NOT_PICKLED):
            Saver(pickled, protocol=5, buffer_callback=arrays.append).dump((graph, repaired, plan))
            parts: list[bytes | memoryview] = [
                self._told,
                self._content,
                pickled.getbuffer(),
                *(each.raw() for each in arrays),
            ]
            if sum(memoryview(part).nbytes for part in parts) > MOST_OF_A_FILE:
                return

            def make(work: Path) -> Path:
                (work / "plan").write_bytes(joined(parts))
                return work / "plan"

            cache.store(self._place, make)
            _trim(self._place.parent)


def _parsed(content: bytes, name: str) -> tuple[Graph, str]:
    from twinfer.runtime.read.tflite import parse

    return parse(content, name)


def _own_operators() -> bool:
    """Whether operators of the user's own may take part."""
    registry = sys.modules.get("twinfer.runtime.registry")
    registered = registry is not None and registry.has_folders()
    return registered or bool(os.environ.get(places.VARIABLE)) or places.packages_may_offer()


def _told(name: str, options: Options, version: str) -> bytes:
    """All that a plan depends on beside the model's bytes."""
    computer = isa.this_computer()
    return (repr((name, options, computer.name, sorted(computer.features))) + version).encode()


@functools.cache
def _version() -> str:
    """Python's version, NumPy's, and which sources twinfer has, of when: developers change them all the time.

    Nothing if there are no sources, or if one was put in its place since this process has begun: it may run others.
    """
    root, sources = Path(kernels_c.__file__).resolve().parents[1], list[Source]()
    with suppress(OSError):
        sources = [*_sources(root / "runtime"), *_sources(root / "kernels_c")]
    if not sources or any(source.changed > BEGUN for source in sources):
        return ""
    return repr((sys.version, np.__version__, *map(tuple, sources)))


class Source(NamedTuple):
    """A module: its path, its bytes, and in ns when it was written and when it was put in its place."""

    path: str
    size: int
    written: int
    changed: int


def _sources(folder: str | os.PathLike[str]) -> Iterator[Source]:
    """The modules below a folder."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry.path)
        elif entry.name.endswith((".py", ".so")) and entry.is_file():
            about = entry.stat()
            yield Source(entry.path, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _trim(folder: Path) -> None:
    """Take files away, the one that was not used for longest first, until all fit; what cannot go stays."""
    files = sorted(_files(folder), key=lambda each: each[1].st_mtime_ns)
    total = sum(about.st_size for _, about in files)
    for file, about in files:
        if total <= MOST_OF_ALL:
            return
        with suppress(OSError):
            file.unlink()
            total -= about.st_size


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of a folder; others may take some away meanwhile."""
    for file in folder.iterdir():
        with suppress(OSError):
            if stat.S_ISREG((about := file.stat()).st_mode):
                yield file, about
