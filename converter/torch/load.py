"""Reads .pt2 files of ``torch.export.save``, of which nothing but tensors is unpickled."""

from __future__ import annotations

import json
import logging
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twinfer.runtime.errors import ModelError, TwinferError
from twinfer.runtime.read.files import check_file

if TYPE_CHECKING:
    import torch

#: Beginnings of the names under which torch keeps compiled code and objects other than tensors.
_OBJECTS = ("custom_obj_", "opaque_obj_", "aotinductor")


def load(path: str | os.PathLike[str]) -> torch.export.ExportedProgram:
    import torch

    check_file(path)
    try:
        _refuse_objects(path)
        with quiet(), _weights_only():
            return torch.export.load(path)
    except TwinferError:
        raise
    except Exception as error:  # whatever torch meets in a file that it did not write
        raise ModelError(f"{os.fspath(path)} is no program of torch.export.save, or damaged") from error


def _refuse_objects(path: str | os.PathLike[str]) -> None:
    """Raises ModelError for an archive with pickled objects beside tensors, or with compiled code: both may run
    anything."""
    with zipfile.ZipFile(path) as archive:
        configs = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".json")]
        texts = [*archive.namelist(), *(text for config in configs for text in _texts(json.loads(config)))]
    if code := [text for text in texts if any(part.startswith(_OBJECTS) for part in text.split("/"))]:
        raise ModelError(f"{os.fspath(path)} holds {code[0]}, which may run code: export a module of tensors alone")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


@contextmanager
def _weights_only() -> Iterator[None]:
    """Makes torch unpickle tensors only: otherwise example inputs in a .pt2 file could run code."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def quiet() -> Iterator[None]:
    """Hides what torch says about itself: deprecations inside it, how its LSTM and GRU keep their weights, that
    torchvision is not installed, and tracebacks of files that it cannot load."""
    logs = [logging.getLogger(name) for name in ("torch.onnx._internal.exporter._registration", "torch.export")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r".*LeafSpec.* is deprecated", FutureWarning)
            warnings.filterwarnings("ignore", r"(?s).*_flat_weights.* assigned during export", UserWarning)
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
