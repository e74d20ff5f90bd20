"""The public runtimes, behind the same few methods. Every other module of this folder is about one."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from textwrap import shorten
from typing import Any

import numpy as np

from twinfer.bench.models.qdq import STORED, other_sign, outer
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Array, Graph

#: The program of a peer's own process.
_CHILD = f"import sys; from {__name__} import answer; answer(*sys.argv[1:])"

#: The most seconds that a peer in a process of its own may take.
PATIENCE = 600


class PeerModel(ABC):
    """A model that is opened in a peer. Calling it maps inputs to outputs.

    ``invoke`` is the peer's own method, so that timed calls have no wrapper of ours.
    """

    invoke: Callable[[], object]

    @abstractmethod
    def feed(self, inputs: Sequence[Array]) -> None:
        """Sets all inputs, in the model's order."""

    @abstractmethod
    def outputs(self) -> list[Array]:
        """Copies of all outputs, in the model's order."""

    @abstractmethod
    def reset(self) -> None:
        """Sets variables to their first values."""

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        self.feed(inputs)
        self.invoke()
        return self.outputs()


class Stateless(PeerModel):
    """A model none of whose operators keeps a state, because the peer has, or is given, no such operator."""

    def reset(self) -> None:
        """There is nothing to set."""


class Function(Stateless):
    """A model as a function from arrays of the peer's own to such arrays, made of the model's ONNX file."""

    def __init__(self, graph: Graph, function: Callable[..., Any], move: Callable[[Array], Any]) -> None:
        """``move`` makes an array of the peer's own."""
        self._ends, self._function, self._move = graph.outputs, function, move
        self._inputs: list[Any] = []
        self._results: Any = ()

    def feed(self, inputs: Sequence[Array]) -> None:
        self._inputs = [self._move(other_sign(np.asarray(value)).reshape(outer(value.shape))) for value in inputs]

    def invoke(self) -> None:
        self._results = self._function(*self._inputs)

    @abstractmethod
    def host(self, result: Any) -> Array:
        """One of the peer's own arrays as numpy's."""

    def outputs(self) -> list[Array]:
        results = [self._results] if hasattr(self._results, "shape") else self._results
        values = []
        for result, end in zip(results, self._ends, strict=True):
            stored: Array = np.array(self.host(result)).view(STORED[end.type])  # some tell no int8 from uint8
            values.append(other_sign(stored).reshape(end.shape))
        return values


@dataclass(frozen=True)
class Peer:
    """A public runtime: all that the command line, the reports and the benchmarks know of it.

    ``open(model, outputs)`` opens a model with that many outputs; it may raise RuntimeError and ValueError.
    """

    name: str  # on the command line and in JSON
    label: str  # in tables
    heading: str  # over a narrow column
    module: str  # what is imported
    package: str  # what is installed
    open: Callable[[bytes, int], PeerModel]
    aborts: bool = False  # whether some models end the process, so that another process tries them first
    benched: bool = False  # whether bench compares with it where it is installed
    trust: int | None = None  # verify uses it if installed; it decides if no peer with a lower number could run


@cache
def peers() -> dict[str, Peer]:
    """All peers by name: every ``Peer`` of the other modules of this folder."""
    folder = Path(__file__).parent
    modules = [info.name for info in iter_modules([str(folder)]) if info.name != Path(__file__).stem]
    every = [value for name in modules for value in vars(import_module(f"{__package__}.{name}")).values()]
    return {peer.name: peer for peer in sorted((p for p in every if isinstance(p, Peer)), key=lambda peer: peer.name)}


def benched() -> list[str]:
    """The peers that bench compares with by default."""
    return [peer.name for peer in peers().values() if peer.benched]


def trusted() -> list[str]:
    """The peers that verify uses by default; the most trusted one comes first."""
    ranked = [(peer.trust, peer.name) for peer in peers().values() if peer.trust is not None]
    return [name for _, name in sorted(ranked)]


def find(name: str) -> Peer:
    """The peer of that name; InvalidArgumentError if there is none."""
    if name not in peers():
        raise InvalidArgumentError(f"there is no peer {name!r}; there are: {', '.join(peers())}")
    return peers()[name]


@contextmanager
def silence() -> Iterator[None]:
    """Hides what C++ code or a progress bar writes to either output (LiteRT greets for every delegate)."""
    kept = {}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        with open(os.devnull, "wb") as nothing:
            for number in (1, 2):
                kept[number] = os.dup(number)
                os.dup2(nothing.fileno(), number)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


def installed(peer: str) -> bool:
    """Whether the peer can be imported; InvalidArgumentError if there is none of that name."""
    return importlib.util.find_spec(find(peer).module) is not None


def version(peer: str) -> str:
    """Version of the peer's package; empty if it is not installed."""
    try:
        return importlib.metadata.version(find(peer).package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def open_peer(peer: str, model: bytes, outputs: int) -> PeerModel:
    """The model in a peer of that name; ToolError if the peer is missing or refuses the model.

    ``outputs`` is the number of the model's outputs. Where the peer aborts the process, ``isolate`` survives.
    """
    _need(peer)
    try:
        return find(peer).open(model, outputs)
    except (RuntimeError, ValueError) as error:
        raise ToolError(f"{peer} refuses this model: {_short(error)}") from error


def _short(error: Exception) -> str:
    """What a peer says, which may go on for every tensor."""
    return shorten(str(error), 160, placeholder=" …")


def _need(peer: str) -> None:
    if not installed(peer):
        raise ToolError(f"{peer} is not installed: pip install {find(peer).package}")


# -- in a process of their own -----------------------------------------------------------------------------------------


def isolate(peer: str, model: bytes, samples: Sequence[Sequence[Array]], outputs: int) -> list[list[Array]]:
    """Outputs for every sample from fresh state, computed in a process of its own, which may crash.

    ToolError if the peer is missing, refuses the model, crashes or hangs.
    """
    _need(peer)
    with tempfile.TemporaryDirectory(prefix="twinfer-") as folder:
        work = Path(folder)
        (work / "model").write_bytes(model)
        np.savez(work / "inputs.npz", **{f"{i}_{j}": v for i, s in enumerate(samples) for j, v in enumerate(s)})  # type: ignore[arg-type]
        command = [sys.executable, "-c", _CHILD, peer, folder, str(len(samples)), str(outputs)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise ToolError(f"{peer} has not answered within {PATIENCE} s") from None
        if done.returncode:
            raise ToolError(_failure(peer, done.returncode, done.stderr))
        with np.load(work / "outputs.npz") as stored:
            return [[stored[f"{i}_{j}"] for j in range(outputs)] for i in range(len(samples))]


def _failure(peer: str, status: int, said: str) -> str:
    """The reason why the process failed, with the last line that it wrote."""
    lines = said.strip().splitlines() or [""]
    if status < 0:
        return f"{peer} crashes on this model ({signal.Signals(-status).name}): {lines[-1]}"
    _, known, message = lines[-1].partition("twinfer.runtime.errors.ToolError: ")
    return message if known else f"{peer} fails: {lines[-1]}"


def answer(peer: str, folder: str, samples: str, outputs: str) -> None:
    """Runs in the process of ``isolate``: answers it by a file."""
    work = Path(folder)
    runner = open_peer(peer, (work / "model").read_bytes(), int(outputs))
    results: dict[str, Array] = {}
    with np.load(work / "inputs.npz") as stored:
        for i in range(int(samples)):
            runner.reset()
            inputs = [stored[name] for name in sorted(stored.files, key=_order) if name.split("_")[0] == str(i)]
            try:
                results.update({f"{i}_{j}": value for j, value in enumerate(runner(inputs))})
            except (RuntimeError, ValueError) as error:
                raise ToolError(f"{peer} refuses this model: {_short(error)}") from error
    np.savez(work / "outputs.npz", **results)  # type: ignore[arg-type]


def _order(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("_"))
