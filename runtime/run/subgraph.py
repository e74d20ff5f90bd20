"""A subgraph of a model behind LiteRT's API: tensors have indices, and shapes may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from twinfer.runtime.errors import InvalidArgumentError, NotReadyError
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.run.details import NUMPY_TYPES, details
from twinfer.runtime.run.session import Session

if TYPE_CHECKING:
    from twinfer.runtime.op import Shape
    from twinfer.runtime.run.stream import Rows


class ResizeError(InvalidArgumentError, RuntimeError):
    """A shape that an input cannot have: LiteRT says that it raises ValueError, and raises RuntimeError."""


class Subgraph:
    """A subgraph of a model: first the shapes that are asked for, then the engine that holds its tensors.

    ``whole`` gives the model with this subgraph as the main one, for control flow in it.

    Its methods raise InvalidArgumentError for a wrong index, shape or value, NotReadyError before ``allocate``.
    """

    def __init__(self, graph: Graph, options: Options, whole: Callable[[], Graph]) -> None:
        self.file_graph = graph
        self.whole = whole
        self.graph = graph
        self.options = options
        self.wanted: dict[int, Shape] = {}
        self.engine: Session | None = None
        self.begin()
        self._views: dict[int, Array] = {}  # of the engine's tensors, so that getting and setting are quick

    def allocate(self, make: Callable[[Graph], Session]) -> None:
        """Open an engine with ``make`` for the shapes that were asked for, unless there is one."""
        if self.engine is None:
            wanted = {self.file_graph.tensors[i]: shape for i, shape in self.wanted.items()}
            whole = self.whole()
            self.engine = make(_with_shapes(whole, wanted) if wanted else whole)
            self.begin()
            self.graph = self.engine.plan.graph

    def begin(self) -> None:
        """A stream begins: no runs yet, and no rows that wait for their step."""
        self.runs = 0
        self.rows: Rows | None = None

    def ready(self) -> Session:
        """The engine; NotReadyError before ``allocate``."""
        if self.engine is None:
            raise NotReadyError("the tensors are not allocated: call allocate_tensors() first")
        return self.engine

    def tensor(self, index: int) -> Tensor:
        """The tensor of LiteRT's index."""
        count = len(self.graph.tensors)
        if not isinstance(index, int | np.integer) or not 0 <= index < count:
            raise InvalidArgumentError(f"tensor index {index} is outside 0..{count - 1}")
        return self.graph.tensors[int(index)]

    def resize(self, index: int, shape: Shape, strict: bool) -> None:
        """Ask for another shape of an input; ``strict``: only where the model leaves a dimension open."""
        try:
            old = self.tensor(index)
        except InvalidArgumentError as error:
            raise ResizeError(str(error)) from None
        if old not in self.graph.inputs:
            raise ResizeError(f"only inputs can be resized, {old} is none")
        if old.data is not None:
            raise ResizeError(f"{old} is a constant of the model and cannot be resized")
        if any(d < 0 for d in shape):
            raise ResizeError(f"{old} cannot have the shape {list(shape)}")
        if strict:
            signature = old.shape_signature or old.shape
            if len(signature) != len(shape) or any(s not in (-1, d) for s, d in zip(signature, shape, strict=True)):
                raise ResizeError(f"{old}: strict resizing to {list(shape)} against {list(signature)}")
        if shape == self.wanted.get(index, old.shape):
            return
        self.wanted[int(index)] = shape
        self.engine = None
        self._views.clear()

    def view(self, index: int) -> Array:
        """The memory of a tensor, if it has some of its own; that of a constant is read-only."""
        try:
            return self._views[index]
        except (KeyError, TypeError):  # TypeError: no index at all
            return self._open_view(index)

    def _open_view(self, index: int) -> Array:
        tensor, session = self.tensor(index), self.ready()
        plan = session.plan
        own = self.options.preserve_all and tensor in plan.offsets
        if not own and tensor.data is None and tensor not in (*plan.graph.inputs, *plan.graph.outputs, *plan.variables):
            raise InvalidArgumentError(
                f"{tensor} keeps no memory of its own: use experimental_preserve_all_tensors=True, or on_call to look"
            )
        view = session.view(tensor).view()
        if tensor.data is not None:
            view.flags.writeable = False
        self._views[int(index)] = view
        return view

    def set(self, index: int, value: Any) -> None:
        """Copy a value into an input or variable."""
        view, array = self.view(index), as_array(value, self.tensor(index))
        if array.dtype != view.dtype or array.shape != view.shape or not view.flags.writeable:
            raise _misfit(self.tensor(index), array)
        view[...] = array

    def close(self) -> None:
        """Give the engine up; the shapes that were asked for stay."""
        self.engine, self.graph = None, self.file_graph
        self._views.clear()
        self.begin()

    @property
    def kept(self) -> list[Tensor]:
        """What a user may have set or wants to read: inputs, variables and outputs."""
        plan = self.ready().plan
        every = dict.fromkeys((*plan.graph.inputs, *plan.variables, *plan.graph.outputs))
        return [tensor for tensor in every if tensor.data is None]

    def operator(self, index: int) -> dict[str, Any]:
        """LiteRT's details of an operator of the file."""
        nodes = self.file_graph.nodes
        if not isinstance(index, int | np.integer) or not 0 <= index < len(nodes):
            raise InvalidArgumentError(f"operator {index} is outside 0..{len(nodes) - 1}")
        node, number = nodes[int(index)], {t: i for i, t in enumerate(self.file_graph.tensors)}
        return {
            "index": int(index),
            "op_name": node.op.removeprefix("CUSTOM:"),
            "inputs": np.array([-1 if t is None else number[t] for t in node.inputs], np.int32),
            "outputs": np.array([number[t] for t in node.outputs], np.int32),
            "operand_types": [NUMPY_TYPES.get(t.type) for t in node.inputs if t is not None],
            "result_types": [NUMPY_TYPES.get(t.type) for t in node.outputs],
        }

    def details(self, index: int) -> dict[str, Any]:
        """LiteRT's details dictionary of a tensor."""
        tensor = self.tensor(index)
        return details(tensor, index, self.wanted.get(index, tensor.shape))


def _with_shapes(graph: Graph, wanted: dict[Tensor, Shape]) -> Graph:
    from twinfer.runtime.shapes import infer_shapes  # brings all operators

    return infer_shapes(graph, wanted)


def as_array(value: Any, what: object) -> Array:
    """The value as an array; InvalidArgumentError if it is none."""
    try:
        return np.asarray(value)
    except Exception as error:  # lists of several lengths, and what arrays of other libraries raise
        raise InvalidArgumentError(f"cannot set {what}: the value is no array: {error}") from None


def _misfit(tensor: Tensor, value: Array) -> InvalidArgumentError:
    """Why a value cannot be set."""
    if value.dtype != tensor.dtype:
        why = f"the value is {value.dtype}, {tensor.dtype} is needed"
    elif value.shape != tensor.shape:
        why = f"the value's shape is {list(value.shape)}; resize_tensor_input() changes that of an input"
    else:
        why = "it is a constant of the model"
    return InvalidArgumentError(f"cannot set {tensor}: {why}")
