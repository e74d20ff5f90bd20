"""Models come in here, are quantised and rewritten, and go out as .tflite."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Suffixes of the files that frameworks write and ``twinfer convert`` reads.
TO_CONVERT = (".onnx", ".keras", ".pt2")


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file that is parsed: ``model`` is the onnx.ModelProto, ``beside`` are the files with its constants."""

    path: str | os.PathLike[str]
    model: Any
    beside: tuple[Path, ...]
