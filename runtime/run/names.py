"""Names under which others know what an interpreter does: TFLM's Python interpreter, and LiteRT's private methods."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array

if TYPE_CHECKING:
    from threading import RLock

    from twinfer.runtime.graph import Graph, Signature
    from twinfer.runtime.options import Options
    from twinfer.runtime.plan.plan import Plan
    from twinfer.runtime.run.resources import Resources
    from twinfer.runtime.run.session import Hook, Session
    from twinfer.runtime.run.subgraph import Subgraph


class Names:
    """Part of ``Interpreter``, whose methods these call."""

    if TYPE_CHECKING:
        _subgraphs: list[Subgraph]
        _signatures: dict[str, Signature]
        _resources: Resources
        _options: Options
        _threads: int
        _lock: RLock
        _beside: tuple[object, list[Session]]
        on_call: Hook | None

        def __init__(self, model_path: Any = None, model_content: Any = None) -> None: ...
        def _setup(self, graph: Graph, options: Options, on_call: Hook | None, threads: int = 1) -> None: ...
        def _make(self, index: int, graph: Graph) -> Session: ...
        def _subgraph(self, index: int) -> Subgraph: ...
        def allocate_tensors(self) -> None: ...
        def set_tensor(self, tensor_index: int, value: Any) -> None: ...
        def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array: ...
        def get_input_details(self, index: int | None = None) -> Any: ...
        def get_output_details(self, index: int | None = None) -> Any: ...
        def reset_all_variables(self) -> None: ...
        @property
        def plan(self) -> Plan: ...

    # -- TFLM ------------------------------------------------------------------------------------------------------

    @classmethod
    def from_file(
        cls,
        model_path: str | os.PathLike[str],
        custom_op_registerers: list[str] | None = None,
        arena_size: int | None = None,
        **ignored: Any,
    ) -> Self:
        """TFLM's way to open a model, and that of LiteRT's CompiledModel: tensors are allocated already.

        ModelError if ``arena_size`` bytes are too few. Other arguments of theirs change nothing.
        """
        return cls(model_path=model_path)._opened(custom_op_registerers, arena_size)

    @classmethod
    def from_bytes(
        cls,
        model_data: bytes,
        custom_op_registerers: list[str] | None = None,
        arena_size: int | None = None,
        **ignored: Any,
    ) -> Self:
        """As ``from_file``, of the content of a file."""
        content = bytes(model_data) if isinstance(model_data, bytearray | memoryview) else model_data
        return cls(model_content=content)._opened(custom_op_registerers, arena_size)

    from_buffer = from_bytes  # LiteRT's CompiledModel

    def _opened(self, registerers: object, arena_size: int | None) -> Self:
        if registerers:
            raise InvalidArgumentError("custom_op_registerers are not supported: twinfer.register() adds operators")
        self.allocate_tensors()
        need = self.plan.memory_bytes
        if arena_size is not None and arena_size < need:
            raise InvalidArgumentError(f"an arena of {arena_size} bytes is too small: the model needs {need}")
        return self

    def set_input(self, input_data: Any, index: int) -> None:
        """Set the input of that number."""
        self.set_tensor(self.get_input_details(index)["index"], input_data)

    def get_output(self, index: int) -> Array:
        """A copy of the output of that number."""
        return self.get_tensor(self.get_output_details(index)["index"])

    def reset(self) -> None:
        """``reset_all_variables``."""
        self.reset_all_variables()

    def print_allocations(self) -> None:
        """Write the bytes of the plan to stderr; ``twinfer inspect`` shows more."""
        plan = self.plan
        sys.stderr.write(f"arena {plan.arena_bytes} bytes, state {plan.state_bytes}, constants {plan.constant_bytes}\n")

    # -- LiteRT, private, which tools use nevertheless --------------------------------------------------------------

    def _get_op_details(self, op_index: int) -> dict[str, Any]:
        """An operator of the file: its number and name, and number and type of its tensors (-1: an absent one)."""
        return self._subgraphs[0].operator(op_index)

    def _get_ops_details(self) -> list[dict[str, Any]]:
        """``_get_op_details`` of all operators of the main subgraph. LiteRT adds those of its delegates."""
        return [self._get_op_details(i) for i in range(len(self._subgraphs[0].file_graph.nodes))]

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> dict[str, Any]:
        with self._lock:
            return self._subgraph(subgraph_index).details(tensor_index)

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        """Signature key -> names and tensor indices of its inputs and outputs."""
        full = {}
        for key, signature in self._signatures.items():
            tensors = self._subgraphs[signature.subgraph].file_graph.tensors
            ends = {"inputs": signature.inputs, "outputs": signature.outputs}
            full[key] = {
                end: {name: tensors.index(named[name]) for name in sorted(named)} for end, named in ends.items()
            }
        return full

    # -- Python ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the memory back; ``allocate_tensors`` takes it again, with first values."""
        with self._lock:
            self._beside = None, []
            for subgraph in self._subgraphs:
                subgraph.close()
            self._resources = type(self._resources)()

    def __repr__(self) -> str:
        graph = self._subgraphs[0].graph
        engine = self._subgraphs[0].engine
        state = f"{engine.plan.memory_bytes:,} bytes" if engine else "not allocated"
        return f"<{type(self).__name__} of {graph.said}, {state}>"

    def __copy__(self) -> Self:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Another interpreter of the same graph, which never changes, with the same values in its tensors."""
        twin = type(self).__new__(type(self))
        twin.__setstate__(self.__getstate__())
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Model, options and shapes; of what is allocated the values of inputs, variables and outputs."""
        with self._lock:
            values: dict[int, list[Array]] = {}
            for i, subgraph in enumerate(self._subgraphs):
                if subgraph.engine is not None:
                    self._resources.enter(subgraph.engine)
                    values[i] = [subgraph.engine.view(tensor).copy() for tensor in subgraph.kept]
            return {
                "graph": self._subgraphs[0].whole(),
                "options": self._options,
                "on_call": self.on_call,
                "threads": self._threads,
                "wanted": [dict(subgraph.wanted) for subgraph in self._subgraphs],
                "values": values,
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._setup(state["graph"], state["options"], state["on_call"], state["threads"])
        for subgraph, wanted in zip(self._subgraphs, state["wanted"], strict=True):
            subgraph.wanted = wanted
        for i, values in state["values"].items():
            subgraph = self._subgraphs[i]
            subgraph.allocate(lambda graph, i=i: self._make(i, graph))
            engine = subgraph.ready()
            self._resources.enter(engine)
            for tensor, value in zip(subgraph.kept, values, strict=True):
                engine.view(tensor)[...] = value
