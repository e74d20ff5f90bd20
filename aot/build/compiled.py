"""``compile``: a model built to machine code for this computer, behind the interpreter's own API."""

from __future__ import annotations

import os

from twinfer.aot.build.host import compile_plans
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Coding, Decoding, Optimize, Options
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session


class CompiledModel(Interpreter):
    """The interpreter's twin: the same methods and the same bits, run by C that was emitted from the same plan.

    The first ``allocate_tensors()`` for given input shapes compiles, or takes the library from the user's cache
    folder; ToolError if no C compiler is installed or it fails. With ``on_call`` it runs layer by layer.
    ``compile`` and ``from_graph`` take options.
    """

    def _open(self, plan: Plan) -> Session:
        return compile_plans({"model": plan.printed(guard=False)})["model"]  # it is watched from outside


def compile(
    model: str | os.PathLike[str] | bytes | Graph,
    target: str = "host",
    *,
    optimize: Optimize = "balanced",
    weights: Coding = "file",
    decode: Decoding = "layer",
) -> CompiledModel:
    """Compile a model (path, content or Graph) and return it ready to run: ``set_tensor``, ``invoke``, ``get_tensor``.

    ``optimize``: for "speed" or "size" of the code, or "balanced". ``weights``: how constant weights are stored, as in
    the "file", "plain", "lut", "huffman", "bitmap" or, of every layer the smallest, "auto". ``decode``: when they are
    decoded, before their "layer" or at the "start". The bits are the same. Raises ModelError for a damaged model,
    UnsupportedOperatorError, ToolError as ``CompiledModel`` does, and InvalidArgumentError for an option that does not
    exist and for a target other than "host": what this computer cannot run has to be written out.
    """
    if not isinstance(target, str) or target != "host":
        raise InvalidArgumentError(f"only target 'host' runs in this process, not {target!r}: write a C project")
    compiled = CompiledModel.from_graph(_graph(model), Options(optimize, weights, decode))
    compiled.allocate_tensors()
    return compiled


def _graph(model: str | os.PathLike[str] | bytes | Graph) -> Graph:
    if isinstance(model, Graph):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        return read(bytes(model))
    return read_file(model)
