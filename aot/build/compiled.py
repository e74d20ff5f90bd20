"""``compile``: a model built to machine code for this computer, behind the interpreter's own API."""

from __future__ import annotations

import os

from twinfer.aot.build.host import compile_plans
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Coding, Decoding, Floats, Memory, Optimize, Options
from twinfer.runtime.passes.ends import Io, with_io
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session


class CompiledModel(Interpreter):
    """The interpreter's twin: the same methods and the same bits, run by C that was emitted from the same plan.

    The first ``allocate_tensors()`` for given input shapes compiles, unless the user's cache folder has the library.
    ToolError if no C compiler is installed or it fails. With ``on_call`` it runs layer by layer. ``compile`` and
    ``from_graph`` take options.
    """

    def _open(self, plan: Plan, threads: int = 1) -> Session:
        return compile_plans({"model": plan.printed(guard=False)})["model"]  # the interpreter's guard watches it


def compile(
    model: str | os.PathLike[str] | bytes | Graph,
    target: str = "host",
    *,
    optimize: Optimize = "balanced",
    weights: Coding = "file",
    decode: Decoding = "layer",
    memory: Memory = "auto",
    input_rows: bool = False,
    io: Io = "float",
    floats: Floats = "exact",
) -> CompiledModel:
    """Compile a model (path, content or Graph) and return it ready to run: ``set_tensor``, ``invoke``, ``get_tensor``.

    ``optimize``: "speed", "size" or "balanced". ``weights``: how constant weights are stored: as in the "file",
    "plain", in one coding ("lut", "huffman", "bitmap"), or "auto", the smallest per layer. ``decode``: when they are
    decoded, before their "layer" or at the "start". ``memory``: by "layers", by "rows" where that needs less, or
    "auto", on a computer by layers. ``input_rows``: for ``begin``, ``push_row``, ``finish``. The results are the same.
    ``floats``: "fused" rounds a product and its sum once, which changes results by as little as rounding does.
    ``io``: "int8" or "int16" for integers where a float input is quantised first or a float output dequantised last.
    Raises ModelError for a damaged model, UnsupportedOperatorError, ToolError as ``CompiledModel`` does, and
    InvalidArgumentError for an option that does not exist or a target other than "host".
    """
    if not isinstance(target, str) or target != "host":
        raise InvalidArgumentError(f"only target 'host' runs in this process, not {target!r}: write a C project")
    options = Options(optimize, weights, decode, memory=memory, input_rows=input_rows, floats=floats)
    compiled = CompiledModel.from_graph(with_io(_graph(model), io), options)
    compiled.allocate_tensors()
    return compiled


def _graph(model: str | os.PathLike[str] | bytes | Graph) -> Graph:
    if isinstance(model, Graph):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        return read(bytes(model))
    return read_file(model)
