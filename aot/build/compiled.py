"""``compile``: a model built to machine code for this computer, behind the interpreter's own API."""

from __future__ import annotations

import os

from twinfer.aot.build.host import compile_plans
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST, Target


class CompiledModel(Interpreter):
    """The interpreter's twin: the same methods and the same bits, run by C that was emitted from the same plan.

    The first ``allocate_tensors()`` for given input shapes compiles, or takes the library from the user's cache
    folder; ToolError if no C compiler is installed or it fails. With ``on_call`` it runs layer by layer.
    Until then may be set: ``optimize``, "speed", "balanced" or "size"; ``weights``, how constant weights are stored:
    as in the "file", "plain", "lut", "huffman", "bitmap" or, of every layer the smallest, "auto"; and ``decode``, when
    they are decoded: before their "layer" or at the "start".
    """

    optimize: str = "balanced"
    weights: str = "file"
    decode: str = "layer"

    @property
    def _target(self) -> Target:
        return HOST.optimized(self.optimize).storing(self.weights, self.decode)

    def _open(self, plan: Plan) -> Session:
        return compile_plans({"model": plan})["model"]


def compile(
    model: str | os.PathLike[str] | bytes | Graph,
    target: str = "host",
    *,
    optimize: str = "balanced",
    weights: str = "file",
    decode: str = "layer",
) -> CompiledModel:
    """Compile a model (path, content or Graph) and return it ready to run: ``set_tensor``, ``invoke``, ``get_tensor``.

    ``optimize``: for "speed" or "size" of the code, or "balanced"; ``weights`` and ``decode``: how weights are stored,
    as ``CompiledModel`` has it; the bits are the same. Raises ModelError for a damaged model,
    UnsupportedOperatorError, ToolError as ``CompiledModel`` does, and InvalidArgumentError for a target other than
    "host": what this computer cannot run has to be written out.
    """
    if not isinstance(target, str) or target != "host":
        raise InvalidArgumentError(f"only target 'host' runs in this process, not {target!r}: write a C project")
    if isinstance(model, Graph):
        compiled = CompiledModel.from_graph(model)
    elif isinstance(model, bytes | bytearray | memoryview):
        compiled = CompiledModel(model_content=bytes(model))
    else:
        compiled = CompiledModel(model_path=model)
    compiled.optimize, compiled.weights, compiled.decode = optimize, weights, decode
    compiled.allocate_tensors()
    return compiled
