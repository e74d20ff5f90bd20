"""What twinfer has a kernel for: by operator and types from the operators' own cases, and by node of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from twinfer.runtime.control import CONTROL
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph, Node, Tensor, walk
from twinfer.runtime.op import Op
from twinfer.runtime.passes.unsigned import make_node_signed
from twinfer.runtime.plan.inline import inline
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators, variants
from twinfer.runtime.shapes import guarded, infer_node, infer_shapes
from twinfer.runtime.target import TARGETS, Choice, Target

#: The seed of the cases.
SEED = 0

#: The variant of a node that no other takes.
PLAIN = Choice().variant

#: Types of tensors that say how, not what: they are told for values and weights only.
_MARKS = ("INT32", "INT64", "BOOL", "STRING")


def types_of(node: Node) -> str:
    """The types of a node in a word: ``int16×int8`` is a value and weights, ``int8→float32`` a value and the output."""
    given = [tensor for tensor in node.inputs if tensor is not None]
    value = next((t for t in given if t.data is None), next(iter((*given, *node.outputs)), None))
    if value is None:
        return "-"
    weights = [t.type for t in given if t.data is not None and t.type not in (*_MARKS, value.type)]
    word = "×".join([value.type, *dict.fromkeys(weights)])
    out = node.outputs[0].type if node.outputs else value.type
    return (word if out == value.type else f"{word}→{out}").lower()


# -- operators ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """An operator over some types: target's name -> the variants that some case of the operator gets there."""

    op: str
    types: str
    variants: Mapping[str, Sequence[str]]


def forms(targets: Sequence[Target] = TARGETS) -> Iterator[Form]:
    """All that twinfer has kernels for, operator by operator: what its cases pass through infer and lower."""
    for name in sorted(operators()):
        yield from _forms(operators()[name], targets)


def _forms(op: Op, targets: Sequence[Target]) -> Iterator[Form]:
    taken: dict[str, dict[str, dict[str, None]]] = {}
    wanted = {PLAIN, *(variant.name for variant in variants(op.name))}
    for node in _with_unsigned(case.node for case in op.cases(np.random.default_rng(SEED))):
        types = types_of(node)
        for target in targets:
            names = taken.get(types, {}).get(target.name, {})
            if names.keys() != wanted and (name := _variant(node, target)) is not None:
                taken.setdefault(types, {}).setdefault(target.name, {}).setdefault(name)
    for types, of in taken.items():
        told = [target for target in targets if target.name in of]
        yield Form(
            op.name, types, {target.name: sorted(of[target.name], key=_rank(op.name, target)) for target in told}
        )


def _rank(op: str, target: Target) -> Callable[[str], int]:
    """The order of an operator's variants: as they are asked on the target, plain C behind them."""
    names = [variant.name for variant in variants(op) if target.has(*variant.needs)]
    return lambda name: names.index(name) if name in names else len(names)


def _variant(node: Node, target: Target) -> str | None:
    """The variant that a case gets, None if it is refused."""
    try:
        infer_node(node)
        return lower_node(make_node_signed(node), target)[1].variant
    except TwinferError:
        return None


def _with_unsigned(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes, behind each of int8 alone the same of uint8."""
    for node in nodes:
        yield node
        types = types_of(node)
        if types.startswith("int8") and "×" not in types:
            yield replace(node, inputs=tuple(map(_unsigned, node.inputs)), outputs=tuple(map(_flipped, node.outputs)))


def _unsigned(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else _flipped(tensor)


def _flipped(tensor: Tensor) -> Tensor:
    """The tensor of uint8 that has the same values as one of int8; others as they are."""
    if tensor.type != "INT8" or tensor.quant is None:
        return tensor
    data = None if tensor.data is None else (tensor.data ^ -128).view(np.uint8)
    quant = replace(tensor.quant, zero_point=tensor.quant.zero_point + 128)
    return replace(tensor, type="UINT8", quant=quant, data=data)


# -- a model -----------------------------------------------------------------------------------------------------------


@dataclass()
class Use:
    """Nodes of a model of the same operator and types that become the same. ``kernel`` is empty where there is none."""

    op: str
    types: str
    kernel: str = ""
    variant: str = ""
    control: str = ""
    count: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Audit:
    """How a model is supported on a target; ``problems`` are those of the model as a whole."""

    uses: tuple[Use, ...]
    problems: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Everything that keeps the model from running."""
        return (*(problem for use in self.uses for problem in use.problems), *self.problems)


def audit(graph: Graph, target: Target) -> Audit:
    """Every node of all subgraphs, asked alone, so that nothing hides behind the first fault; then the whole model."""
    uses: dict[tuple[str, ...], Use] = {}
    for one in walk(graph):
        for node in _inferred(one).nodes:
            use = _use(node, target)
            same = uses.setdefault((use.op, use.types, use.kernel, use.variant), use)
            same.count += 1
            same.problems += use.problems if same is not use else []
    lost = any(use.problems for use in uses.values())
    fault = _fault(lambda: inline(graph) if lost else make_plan(graph, target))
    ordered = sorted(uses.values(), key=lambda use: (use.op, use.types, use.kernel, use.variant))
    return Audit(tuple(ordered), (fault,) if fault else ())


def _fault(ask: Callable[[], object]) -> str:
    """The error that a function raises about a model, "" if none."""
    try:
        ask()
    except TwinferError as error:
        return str(error)
    return ""


def _inferred(graph: Graph) -> Graph:
    """The graph with the shapes that its file leaves open; as it is where an operator in it is unknown."""
    try:
        return infer_shapes(graph)
    except TwinferError:
        return graph


def _use(node: Node, target: Target) -> Use:
    use = Use(node.op, types_of(node))
    if node.op in CONTROL:
        use.control = CONTROL[node.op]
        return use
    try:
        infer_node(node)
        larger = not target.flash_is_dear
        call, choice = guarded(node, lambda: lower_node(make_node_signed(node), target, larger=larger))
        use.kernel, use.variant = call.kernel, choice.variant
    except TwinferError as error:
        use.problems.append(str(error))
    return use
