"""LiteRT's signature runner: a model called by the names of a signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph, Signature
from twinfer.runtime.run.session import Session
from twinfer.runtime.run.subgraph import Subgraph, as_array

if TYPE_CHECKING:
    from threading import RLock


class SignatureRunner:
    """Runs one signature: ``runner(name=array, ...) -> {name: array}``, as LiteRT's; inputs are resized as needed.

    ``lock`` is the interpreter's, whose signatures share variables: a call keeps it from its inputs to its outputs.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        signature: Signature,
        make: Callable[[Graph], Session],
        invoke: Callable[[Subgraph], None],
        lock: RLock,
    ) -> None:
        self._subgraph, self._make, self._invoke, self._lock = subgraph, make, invoke, lock
        index = {t: i for i, t in enumerate(subgraph.file_graph.tensors)}
        self._inputs = {name: index[t] for name, t in signature.inputs.items()}
        self._outputs = {name: index[t] for name, t in signature.outputs.items()}

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        if set(inputs) != set(self._inputs):
            raise InvalidArgumentError(f"this signature takes {sorted(self._inputs)}, not {sorted(inputs)}")
        arrays = {name: as_array(value, f"input {name!r}") for name, value in inputs.items()}
        with self._lock:
            for name, array in arrays.items():
                self._subgraph.resize(self._inputs[name], array.shape, strict=False)
            self._subgraph.allocate(self._make)
            for name, array in arrays.items():
                self._subgraph.set(self._inputs[name], array)
            self._invoke(self._subgraph)
            return {name: self._subgraph.view(i).copy() for name, i in self._outputs.items()}

    def _named(self, names: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        with self._lock:
            return {name: self._subgraph.details(i) for name, i in names.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """Input name -> details dictionary."""
        return self._named(self._inputs)

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """Output name -> details dictionary."""
        return self._named(self._outputs)
