"""Reads the MODEL of the command line: a .tflite file, or the name of a built-in model."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from twinfer.converter import TO_CONVERT
from twinfer.runtime.entry import alone
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.passes.ends import Io, with_io
from twinfer.runtime.read.tflite import read_file


@dataclass(frozen=True)
class Source:
    """A model as in its file; ``path`` is None for a built-in one."""

    name: str
    graph: Graph
    path: Path | None = None

    @cached_property
    def content(self) -> bytes:
        """The bytes of the .tflite file: from the disk, or written anew."""
        from twinfer.runtime.write.tflite import write

        return self.path.read_bytes() if self.path is not None else write(self.graph)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def builtin_names() -> list[str]:
    from twinfer.bench.models.builtin import builtin

    return list(builtin())


def file_of(model: str) -> str:
    """The file or name of a model, without the signature behind its last #."""
    return _parts(model)[0]


def name_of(model: str) -> str:
    """What the model of ``load`` is called; it need not be there."""
    file, key = _parts(model)
    return "_".join([Path(file).stem, *filter(None, [key])])


def _parts(model: str) -> tuple[str, str]:
    """The file or name of a model, and the signature behind its last # ("" for the model as it is)."""
    file, _, key = ("", "", "") if os.path.exists(model) else model.rpartition("#")
    return (file, key) if file else (model, "")


def load_with(model: str, io: Io) -> Source:
    """The model with integers at its ends as ``with_io`` gives them; raises what ``load`` and ``with_io`` do."""
    source = load(model)
    graph = with_io(source.graph, io)
    return source if graph is source.graph else Source(source.name, graph)


def load(model: str) -> Source:
    """The model of that path or, if there is no such file, of that name; behind a # one of its signatures alone.

    InvalidArgumentError if it is neither or has no such signature, ModelError if the file is damaged.
    """
    file, key = _parts(model)
    if key:
        graph = alone(load(file).graph, key)
        return Source(name_of(model), graph)
    path = Path(model)
    if path.suffix.lower() in TO_CONVERT and os.path.exists(path):
        raise InvalidArgumentError(f"{path}: convert it first: twinfer convert {path} -o {path.with_suffix('.tflite')}")
    if not path.suffix and len(path.parts) == 1 and not os.path.isfile(path):  # also beside a folder of that name
        from twinfer.bench.models.builtin import builtin, large

        known = builtin() | large()
        if model in known:
            return Source(model, known[model]())
        if not os.path.exists(path):
            names = ", ".join(known)
            raise InvalidArgumentError(f"{model!r} is neither a file nor a built-in model; those are: {names}")
    if os.path.exists(path) and path.suffix.lower() != ".tflite":
        from twinfer.converter.source import check_kind

        check_kind(path)
    return Source(name_of(model), read_file(path), path)
