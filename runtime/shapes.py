"""Re-infers the shapes of a graph: LiteRT's resize_tensor_input and allocate_tensors as one pass ``Graph -> Graph``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import index, is_
from typing import Any, TypeVar

import numpy as np

from twinfer.runtime.called import Calls
from twinfer.runtime.control import CALLEES, CONTROL
from twinfer.runtime.errors import InvalidArgumentError, ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, PACKED_BITS, Array, Graph, Node, Tensor, walk
from twinfer.runtime.op import Shape, need, unsupported
from twinfer.runtime.passes.unsigned import make_node_signed
from twinfer.runtime.registry import find, operator
from twinfer.runtime.stored import plain_constants

T = TypeVar("T")

#: Operators whose result depends on nothing but the shape of their input, and those that are folded wherever their
#: inputs are constants; others are if a constant of theirs was folded.
SHAPE_OPS = frozenset({"SHAPE", "RANK", "ZEROS_LIKE"})
CONSTANT_OPS = frozenset({"BROADCAST_ARGS", "RANGE", "FILL", "WHERE", "ONE_HOT"})

#: Operators over constants that always become constants: decoders of weights.
DECODERS = frozenset({"CUSTOM:TFLM_DECODE"})

#: Types that shapes are computed in, and the most elements of a result that is folded.
SHAPE_TYPES = frozenset({"INT32", "INT64", "BOOL"})
MAX_FOLDED = 1024

#: Extents are int32: every dimension is below.
EXTENT_LIMIT = 1 << 31


def shape_of(size: Any) -> Shape:
    """A user's value as a shape; InvalidArgumentError if it is none."""
    try:
        return tuple(index(d) for d in size)
    except TypeError:
        raise InvalidArgumentError(f"a shape is a sequence of whole numbers, not {size!r}") from None


def is_open(tensor: Tensor) -> bool:
    """Whether the file leaves a dimension or the rank open; the shape is then only a proposal. A handle has none."""
    unranked = not tensor.shape and not tensor.extra.get("has_rank") and tensor.data is None
    return (unranked and tensor.type != "RESOURCE") or any(d < 0 for d in tensor.shape_signature)


def infer_shapes(graph: Graph, input_shapes: Mapping[Tensor, Shape] | None = None, *, keep_half: bool = False) -> Graph:
    """The graph with shapes inferred anew: behind inputs that are resized, and behind what the file leaves open.

    ``input_shapes`` gives some of ``graph.inputs`` another shape, of any rank. What operators compute from SHAPE and
    constants alone becomes a constant, so that shape arguments are known when planning; those operators are dropped.
    So are decoders of weights. Stored constants become plain first (runtime/stored.py, also for ``keep_half``). Other
    tensors keep their shapes, and all keep their positions. A subgraph that is called with other shapes than its own
    gets a copy with these, behind all other subgraphs. A graph with nothing to change is returned itself.

    Raises InvalidArgumentError for a shape that no input can have, ModelError where the operators do not fit the new
    shapes, and UnsupportedOperatorError where a shape changes and twinfer does not know the operator.
    """
    shapes = dict(input_shapes or {})
    for tensor, shape in shapes.items():
        _check_request(graph, tensor, shape)

    def inferred(graph: Graph, shapes: Mapping[Tensor, Shape], calls: Calls) -> Graph:
        graph = plain_constants(graph, keep_half)
        inference = _Inference(graph, shapes, calls)
        return inference.graph() if inference.changed else graph

    calls = Calls([*walk(graph)], inferred)
    graph = inferred(graph, shapes, calls)
    return graph if len(calls.graphs) == 1 + len(graph.subgraphs) else replace(graph, subgraphs=(*calls.graphs[1:],))


def _check_request(graph: Graph, tensor: Tensor, shape: Shape) -> None:
    if tensor not in graph.inputs:
        raise InvalidArgumentError(f"{tensor} is no input of the graph; only inputs can be resized")
    if tensor.data is not None:
        raise InvalidArgumentError(f"{tensor} is a constant of the model and cannot be resized")
    if any(d < 0 for d in shape):
        raise InvalidArgumentError(f"{tensor} cannot be resized to {list(shape)}: extents must not be negative")
    if tensor.type in DTYPES and replace(tensor, shape=tuple(shape)).too_large:
        raise InvalidArgumentError(f"{tensor} cannot be resized to {list(shape)}: 2 GiB or more")


def infer_node(node: Node) -> list[Shape]:
    """Shapes of the node's outputs; ModelError or UnsupportedOperatorError if the operator does not take the node."""
    for tensor in node.inputs:
        if tensor is not None and tensor.data is not None:
            _check_constant(node, tensor, tensor.data)
    asked = guarded(node, lambda: make_node_signed(node))
    shapes = guarded(node, lambda: [tuple(int(d) for d in shape) for shape in operator(node).infer(asked)])
    need(len(shapes) == len(node.outputs), node, f"it has {len(node.outputs)} outputs, {node.op} has {len(shapes)}")
    return shapes


def _check_constant(node: Node, tensor: Tensor, data: Array) -> None:
    """ModelError unless the constant holds what its tensor says; operators and kernels rely on that."""
    if tensor.extra.get("sparsity"):
        raise unsupported(node, f"{tensor} is stored sparsely, which has no kernel; store it densely")
    if tensor.type in DTYPES:
        same = (data.dtype, data.shape) == (tensor.dtype, tensor.shape)
    else:
        same = tensor.type not in PACKED_BITS or data.nbytes == tensor.nbytes
    if not same:  # the text of a type takes numpy long
        raise ModelError(f"{node}: the value of {tensor} is {data.dtype}{list(data.shape)}")


def guarded(node: Node, ask: Callable[[], T]) -> T:
    """The result of ``ask``; whatever a damaged node makes its operator raise becomes a ModelError."""
    try:
        return ask()
    except TwinferError:
        raise
    except KeyError as error:
        raise ModelError(f"{node}: its option {error} is missing") from error
    except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError, AttributeError) as error:
        raise ModelError(f"{node}: its shapes, types or options do not fit together ({error!r})") from error


class _Inference:
    """One walk through the nodes.

    ``new``: the tensor that replaces each. ``known``: the constant that its readers see. ``unsure``: tensors whose
    shape in the file is not relied on. ``written``: what a folded node still writes, for the graph has it as an output.
    """

    def __init__(self, graph: Graph, shapes: Mapping[Tensor, Shape], calls: Calls) -> None:
        self.source, self.calls = graph, calls
        self.new = {tensor: _reshaped(tensor, shape) for tensor, shape in shapes.items()}
        self.known: dict[Tensor, Tensor] = {}
        self.written = set[Tensor]()
        self.unsure = {*shapes, *(t for t in graph.tensors if is_open(t))}
        self.nodes: list[Node] = []
        for node in graph.nodes:
            self._add(node)

    @property
    def changed(self) -> bool:
        same = len(self.nodes) == len(self.source.nodes) and all(map(is_, self.nodes, self.source.nodes))
        return bool(self.known) or not same or any(old is not new for old, new in self.new.items())

    def _add(self, node: Node) -> None:
        inputs = tuple(None if t is None else self.known.get(t, self.new.get(t, t)) for t in node.inputs)
        now = node if inputs == node.inputs else replace(node, inputs=inputs)
        if any(t in self.unsure for t in (*node.inputs, *node.outputs)) or any(map(is_open, self.calls.inputs(node))):
            self.unsure.update(node.outputs)
            now = self._called(now) if node.op in CONTROL else _inferred(now, strict=now is not node)
        self.new.update(zip(node.outputs, now.outputs, strict=True))
        values = _fold(now) if self._computes_shapes(node, now) else None
        if values is None:
            self.nodes.append(now)
            return
        for old, tensor, value in zip(node.outputs, now.outputs, values, strict=True):
            self.known[old] = replace(tensor, data=value)
        if any(old in self.source.outputs for old in node.outputs):
            self.nodes.append(now)  # a run must still write all of its outputs; readers use the constants
            self.written.update(node.outputs)

    def _called(self, node: Node) -> Node:
        """The node with subgraphs for the shapes of its inputs; as it is if it calls none, or they do not fit."""
        called = self.calls.node(node) if node.op in CALLEES else None
        if called is None:
            return node
        options, shapes = called
        outputs = tuple(_reshaped(t, shape) for t, shape in zip(node.outputs, shapes, strict=True))
        if outputs == node.outputs and all(node.options[key] == index for key, index in options.items()):
            return node
        return replace(node, options={**node.options, **options}, outputs=outputs)

    def _computes_shapes(self, node: Node, now: Node) -> bool:
        if any(t in self.source.inputs for t in node.outputs):
            return False
        constant = all(t is None or t.data is not None for t in now.inputs)
        if constant and node.op in DECODERS:
            return True
        types = SHAPE_TYPES | {"FLOAT32"} if node.op in CONSTANT_OPS else SHAPE_TYPES
        if any(t.type not in types or t.quant is not None or t.size > MAX_FOLDED for t in now.outputs):
            return False
        derived = node.op in CONSTANT_OPS or any(t in self.known for t in node.inputs)
        return node.op in SHAPE_OPS or (constant and derived)

    def _final(self, tensor: Tensor) -> Tensor:
        """The tensor that replaces one: its constant where no operator writes it any more."""
        return (None if tensor in self.written else self.known.get(tensor)) or self.new.get(tensor, tensor)

    def graph(self) -> Graph:
        source = self.source
        beside = [constant for tensor, constant in self.known.items() if self._final(tensor) is not constant]
        return replace(
            source,
            tensors=(*map(self._final, source.tensors), *beside),
            nodes=tuple(self.nodes),
            inputs=tuple(map(self._final, source.inputs)),
            outputs=tuple(map(self._final, source.outputs)),
            signatures=tuple(signature.over(self._final) for signature in source.signatures),
        )


def _reshaped(tensor: Tensor, shape: Shape) -> Tensor:
    if tensor.shape == tuple(shape):
        return tensor
    signature = tensor.shape_signature if len(tensor.shape_signature) == len(shape) else ()
    return replace(tensor, shape=tuple(shape), shape_signature=signature)


def _inferred(node: Node, strict: bool) -> Node:
    """The node with its outputs' shapes inferred. An unknown operator is an error if ``strict``, else left as it is."""
    try:
        shapes = infer_node(node)
    except UnsupportedOperatorError:
        if strict:
            raise
        return node
    outputs = tuple(_reshaped(t, shape) for t, shape in zip(node.outputs, shapes, strict=True))
    return node if outputs == node.outputs else replace(node, outputs=outputs)


def _fold(node: Node) -> list[Array] | None:
    """The values of the node's outputs by its operator's reference; None if twinfer does not know the operator."""
    if find(node.op) is None:
        return None
    wanted = infer_node(node)
    for tensor in node.inputs:
        need(tensor is None or not tensor.too_large, node, f"{tensor} takes 2 GiB or more")
    values = guarded(node, lambda: _results(node))
    if any(t.shape != shape for t, shape in zip(node.outputs, wanted, strict=True)):
        return None  # planning says what is wrong
    return [value.reshape(t.shape) for value, t in zip(values, node.outputs, strict=True)]


def _results(node: Node) -> list[Array]:
    inputs = [None if t is None else _value(t) for t in node.inputs]
    with np.errstate(all="ignore"):
        results = operator(node).reference(node, inputs)
    return [np.asarray(value, t.dtype) for value, t in zip(results, node.outputs, strict=True)]


def _value(tensor: Tensor) -> Array:
    """The constant; for an input of SHAPE_OPS any array of its shape, which takes no memory."""
    return np.broadcast_to(np.zeros((), np.uint8), tensor.shape) if tensor.data is None else tensor.data
