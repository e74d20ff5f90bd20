"""The public runtimes beside ours: tflite-micro (TFLM) and LiteRT, each behind the same few methods."""

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
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.op import Array

#: Peer -> the module that it needs, and the package that brings it.
PACKAGES = {
    "litert": ("ai_edge_litert", "ai-edge-litert"),
    "litert-ref": ("ai_edge_litert", "ai-edge-litert"),
    "tflm": ("tflite_micro", "tflite-micro"),
}

#: Longest that a peer in a process of its own may take, in seconds.
PATIENCE = 600


class Peer(ABC):
    """A model opened in a peer; called, it is a function from inputs to outputs.

    ``invoke`` is the peer's own method, so that a timed call has no wrapper of ours.
    """

    invoke: Callable[[], object]

    @abstractmethod
    def feed(self, inputs: Sequence[Array]) -> None:
        """Set all inputs, in the model's order."""

    @abstractmethod
    def outputs(self) -> list[Array]:
        """Copies of all outputs, in the model's order."""

    @abstractmethod
    def reset(self) -> None:
        """Variables to their first values."""

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        self.feed(inputs)
        self.invoke()
        return self.outputs()


class Tflm(Peer):
    """tflite-micro's Python interpreter: its reference kernels in an arena of its own."""

    def __init__(self, model: bytes, outputs: int) -> None:
        from tflite_micro import runtime

        self._count = outputs
        self._interpreter = runtime.Interpreter.from_bytes(bytes(model), arena_size=max(1 << 20, 8 * len(model)))
        self.invoke = self._interpreter.invoke

    def feed(self, inputs: Sequence[Array]) -> None:
        for i, value in enumerate(inputs):
            self._interpreter.set_input(np.asarray(value, order="C"), i)

    def outputs(self) -> list[Array]:
        return [np.array(self._interpreter.get_output(i)) for i in range(self._count)]

    def reset(self) -> None:
        self._interpreter.reset()


class Litert(Peer):
    """LiteRT on one thread: as users get it (XNNPACK), or its reference kernels."""

    def __init__(self, model: bytes, *, reference: bool) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
        with silenced():
            interpreter: Any = Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
            interpreter.allocate_tensors()
        self._interpreter = interpreter
        self._inputs = [d["index"] for d in interpreter.get_input_details()]
        self._outputs = [d["index"] for d in interpreter.get_output_details()]
        self.invoke = interpreter.invoke

    def feed(self, inputs: Sequence[Array]) -> None:
        for index, value in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(index, value)

    def outputs(self) -> list[Array]:
        return [self._interpreter.get_tensor(index) for index in self._outputs]

    def reset(self) -> None:
        self._interpreter.reset_all_variables()


@contextmanager
def silenced() -> Iterator[None]:
    """Without what C++ code, or a progress bar, tells standard error (LiteRT greets for every delegate)."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def installed(peer: str) -> bool:
    """Whether the peer can be imported; InvalidArgumentError if there is none of that name."""
    if peer not in PACKAGES:
        raise InvalidArgumentError(f"there is no peer {peer!r}; there are: {', '.join(PACKAGES)}")
    return importlib.util.find_spec(PACKAGES[peer][0]) is not None


def version(peer: str) -> str:
    """Version of the peer's package; empty if it is not installed."""
    try:
        return importlib.metadata.version(PACKAGES[peer][1])
    except importlib.metadata.PackageNotFoundError:
        return ""


def open_peer(peer: str, model: bytes, outputs: int) -> Peer:
    """The model in a peer; ToolError if the peer is missing or refuses the model.

    ``peer``: "tflm", "litert" (as users get it, XNNPACK and all) or "litert-ref" (its reference kernels).
    ``outputs`` is the number of the model's outputs. TFLM aborts the process on some models; ``isolated`` survives.
    """
    if not installed(peer):
        raise ToolError(f"{peer} is not installed: pip install 'twinfer[peers]'")
    try:
        return Tflm(model, outputs) if peer == "tflm" else Litert(model, reference=peer == "litert-ref")
    except (RuntimeError, ValueError) as error:
        raise ToolError(f"{peer} refuses this model: {error}") from error


def isolated(peer: str, model: bytes, samples: Sequence[Sequence[Array]], outputs: int) -> list[list[Array]]:
    """Outputs for every sample, each from fresh state, computed in a process of its own, which may crash.

    ToolError if the peer is missing, refuses the model, crashes or hangs.
    """
    if not installed(peer):
        raise ToolError(f"{peer} is not installed: pip install 'twinfer[peers]'")
    with tempfile.TemporaryDirectory(prefix="twinfer-") as folder:
        work = Path(folder)
        (work / "model").write_bytes(model)
        np.savez(work / "inputs.npz", **{f"{i}_{j}": v for i, s in enumerate(samples) for j, v in enumerate(s)})  # type: ignore[arg-type]
        command = [sys.executable, "-m", "twinfer.bench.peers.engines", peer, folder, str(len(samples)), str(outputs)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise ToolError(f"{peer} has not answered within {PATIENCE} s") from None
        if done.returncode:
            raise ToolError(_failure(peer, done.returncode, done.stderr))
        with np.load(work / "outputs.npz") as found:
            return [[found[f"{i}_{j}"] for j in range(outputs)] for i in range(len(samples))]


def _failure(peer: str, status: int, said: str) -> str:
    """What became of the process, with the last line that it wrote."""
    lines = said.strip().splitlines() or [""]
    if status < 0:
        return f"{peer} crashes on this model ({signal.Signals(-status).name}): {lines[-1]}"
    _, known, message = lines[-1].partition("twinfer.runtime.errors.ToolError: ")
    return message if known else f"{peer} fails: {lines[-1]}"


def _main(peer: str, folder: str, samples: str, outputs: str) -> None:
    """The other side of ``isolated``."""
    work = Path(folder)
    runner = open_peer(peer, (work / "model").read_bytes(), int(outputs))
    found: dict[str, Array] = {}
    with np.load(work / "inputs.npz") as stored:
        for i in range(int(samples)):
            runner.reset()
            inputs = [stored[name] for name in sorted(stored.files, key=_order) if name.split("_")[0] == str(i)]
            try:
                found.update({f"{i}_{j}": value for j, value in enumerate(runner(inputs))})
            except (RuntimeError, ValueError) as error:
                raise ToolError(f"{peer} refuses this model: {error}") from error
    np.savez(work / "outputs.npz", **found)  # type: ignore[arg-type]


def _order(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("_"))


if __name__ == "__main__":
    _main(*sys.argv[1:])
