"""twinfer: embedded neural-network inference, interpreted and compiled from one plan, with the same bits.

    import twinfer

    interpreter = twinfer.Interpreter(model_path="model.tflite")   # LiteRT's API
    compiled = twinfer.compile("model.tflite")                     # the same API over compiled C

Names are loaded when they are first used, so that importing the package takes next to no time.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinfer.aot.build.catalogue import Board, board, boards
    from twinfer.aot.build.compiled import CompiledModel, compile
    from twinfer.bench.fit.fit import fit
    from twinfer.converter.check import check
    from twinfer.converter.convert import convert, convert_file
    from twinfer.converter.keras import from_keras
    from twinfer.converter.search.find import search
    from twinfer.converter.torch import from_torch
    from twinfer.runtime.errors import (
        GuardError,
        InvalidArgumentError,
        ModelError,
        ModelWarning,
        NotReadyError,
        OperatorError,
        ToolError,
        TwinferError,
        UnsupportedOperatorError,
    )
    from twinfer.runtime.graph import Graph
    from twinfer.runtime.options import Options
    from twinfer.runtime.plan.make import make_plan
    from twinfer.runtime.plan.plan import Plan
    from twinfer.runtime.read.tflite import read, read_file
    from twinfer.runtime.registry import register
    from twinfer.runtime.run.estimator import Estimator
    from twinfer.runtime.run.interpreter import Interpreter
    from twinfer.runtime.run.litert import OpResolverType, load_delegate
    from twinfer.runtime.run.tensor_buffer import TensorBuffer
    from twinfer.runtime.write.tflite import write

    __version__: str

__all__ = [
    "Board",
    "CompiledModel",
    "Estimator",
    "Graph",
    "GuardError",
    "Interpreter",
    "InvalidArgumentError",
    "ModelError",
    "ModelWarning",
    "NotReadyError",
    "OpResolverType",
    "OperatorError",
    "Options",
    "Plan",
    "TensorBuffer",
    "ToolError",
    "TwinferError",
    "UnsupportedOperatorError",
    "__version__",
    "board",
    "boards",
    "check",
    "compile",
    "convert",
    "convert_file",
    "fit",
    "from_keras",
    "from_torch",
    "load_delegate",
    "make_plan",
    "read",
    "read_file",
    "register",
    "search",
    "write",
]

_HOME = {
    "twinfer.aot.build.catalogue": ("Board", "board", "boards"),
    "twinfer.bench.fit.fit": ("fit",),
    "twinfer.aot.build.compiled": ("CompiledModel", "compile"),
    "twinfer.converter.check": ("check",),
    "twinfer.converter.convert": ("convert", "convert_file"),
    "twinfer.converter.keras": ("from_keras",),
    "twinfer.converter.search.find": ("search",),
    "twinfer.converter.torch": ("from_torch",),
    "twinfer.runtime.write.tflite": ("write",),
    "twinfer.runtime.errors": tuple(name for name in __all__ if name.endswith(("Error", "Warning"))),
    "twinfer.runtime.graph": ("Graph",),
    "twinfer.runtime.options": ("Options",),
    "twinfer.runtime.run.estimator": ("Estimator",),
    "twinfer.runtime.run.interpreter": ("Interpreter",),
    "twinfer.runtime.run.litert": ("OpResolverType", "load_delegate"),
    "twinfer.runtime.run.tensor_buffer": ("TensorBuffer",),
    "twinfer.runtime.plan.make": ("make_plan",),
    "twinfer.runtime.plan.plan": ("Plan",),
    "twinfer.runtime.read.tflite": ("read", "read_file"),
    "twinfer.runtime.registry": ("register",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _MODULE:
        value = getattr(import_module(_MODULE[name]), name)
    else:
        raise AttributeError(f"module 'twinfer' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("twinfer")
    except metadata.PackageNotFoundError:
        return "0+unknown"


if os.environ.get("TWINFER_DEBUG") or os.environ.get("TWINFER_VIZ"):
    from twinfer import debug

    debug.start()
