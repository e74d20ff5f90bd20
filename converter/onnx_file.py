"""An ONNX file that is parsed already; this module needs no package of ONNX."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file that is parsed: ``model`` is the onnx.ModelProto, ``beside`` are the files with its constants."""

    path: str | os.PathLike[str]
    model: Any
    beside: tuple[Path, ...]
