"""``compile``: a model built to machine code for this computer, behind the interpreter's own API."""

from __future__ import annotations

import os
from dataclasses import replace

from twinfer.aot.host import compile_plans
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.interpreter import Interpreter
from twinfer.runtime.plan import Plan
from twinfer.runtime.session import Session


class CompiledModel(Interpreter):
    """The interpreter's twin: the same methods and the same bits, run by C that was emitted from the same plan.

    The first ``allocate_tensors()`` for given input shapes compiles, or takes the library from the user's cache
    folder; ToolError if no C compiler is installed or it fails. With ``on_call`` it runs layer by layer.
    ``optimize``, which may be set until then, is "speed", "balanced" or "size".
    """

    optimize: str = "balanced"

    def _open(self, plan: Plan) -> Session:
        plan = replace(plan, target=plan.target.optimized(self.optimize))
        return compile_plans({"model": plan})["model"]


def compile(
    model: str | os.PathLike[str] | bytes | Graph, target: str = "host", *, optimize: str = "balanced"
) -> CompiledModel:
    """Compile a model (path, content or Graph) and return it ready to run: ``set_tensor``, ``invoke``, ``get_tensor``.

    ``optimize``: for "speed" or "size" of the code, or "balanced". Raises ModelError for a damaged model,
    UnsupportedOperatorError, ToolError as ``CompiledModel`` does, and InvalidArgumentError for a target other than
    "host": what this computer cannot run has to be written out.
    """
    if target != "host":
        raise InvalidArgumentError(f"only target 'host' runs in this process, not {target!r}: write a C project")
    if isinstance(model, Graph):
        compiled = CompiledModel.from_graph(model)
    elif isinstance(model, bytes | bytearray | memoryview):
        compiled = CompiledModel(model_content=bytes(model))
    else:
        compiled = CompiledModel(model_path=model)
    compiled.optimize = optimize
    compiled.allocate_tensors()
    return compiled
