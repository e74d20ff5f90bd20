"""The first step of planning: every operator becomes a call of a kernel over tensors and shared constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count, repeat
from types import MappingProxyType
from typing import TYPE_CHECKING

from twinfer.runtime.constant import Constant, Pool
from twinfer.runtime.errors import ModelError, OperatorError, UnsupportedOperatorError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import need
from twinfer.runtime.plan.flow import Block, Branch, Copy, Flow, Part, Repeat, nodes_of
from twinfer.runtime.program import COPY, Argument, Call, If, Program, Step, While
from twinfer.runtime.registry import attempts, keeps_state, missing, operator
from twinfer.runtime.shapes import guarded, infer_node
from twinfer.runtime.target import Choice, Target
from twinfer.runtime.walks import steps_of, with_steps

if TYPE_CHECKING:
    from twinfer.runtime.plan.tuned import Settings

#: What makes a node a call.
By = Callable[[Node], tuple[Call, Choice]]

UNTUNED: Settings = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Lowered:
    """What every run does, and the steps before the first one: variables get values, weights are decoded.

    ``flow`` is what was lowered, ``pool`` has its constants. ``borrowed`` is the input that stays where the caller has
    it, if there is one.
    """

    flow: Flow
    pool: Pool
    program: Program
    start: tuple[Step, ...] = ()
    borrowed: Tensor | None = None

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All steps of a run, in the order of their positions."""
        return tuple(steps_of(self.program))


def lower(
    flow: Flow, target: Target, settings: Settings = UNTUNED, *, larger: bool = False, few: bool = True
) -> Lowered:
    """A step per operator and copy, in the same control flow. None takes a ``larger`` variant unless it says so.

    Without ``few``, none takes a variant of that kind. Nodes that ``settings`` know are lowered as these say.

    Raises ModelError for an operator that contradicts itself, UnsupportedOperatorError for operators without a kernel.
    """
    pool = Pool(flow.graph)
    _refuse_unsupported([*nodes_of(flow.start), *nodes_of(flow.main)])
    by = partial(_lowered, target=target, settings=settings, larger=larger, few=few)
    start = _program(flow.start, repeat(-1), by, pool)
    program = (*start, *_program(flow.main, count(), by, pool))
    program = _with_one_state_each(program, flow.states)
    return Lowered(flow, pool, program[len(start) :], tuple(steps_of(program[: len(start)])))


def _with_one_state_each(program: Program, origins: Mapping[Node, Node]) -> Program:
    """The same steps, where those of one node of the file use one state: the variables that its first step has."""
    states: dict[Node, tuple[Tensor, ...]] = {}

    def shared(step: Step) -> Step:
        origin = origins.get(step.node)
        if origin is None:
            return step
        own = tuple(t for t in step.call.written if t.variable and t not in step.node.outputs)
        swap: dict[Argument, Tensor] = dict(zip(own, states.setdefault(origin, own), strict=True))
        inputs = tuple(swap.get(argument, argument) for argument in step.call.inputs)
        outputs = tuple(swap.get(t, t) for t in step.call.outputs)
        call = replace(step.call, inputs=inputs, outputs=outputs)
        return replace(step, call=call, body=(call,))

    return with_steps(program, shared) if origins else program


def _refuse_unsupported(given: Sequence[Node]) -> None:
    """Raise one error that lists all missing operators by name and count and describes the first in full."""
    nodes = missing(given)
    if not nodes:
        return
    try:
        operator(nodes[0])
    except UnsupportedOperatorError as error:
        names = [node.op for node in nodes]
        others = ", ".join(f"{name} x{names.count(name)}" for name in dict.fromkeys(names))
        raise UnsupportedOperatorError(f"{error}; unsupported in this model: {others}") from None


def _program(block: Block, positions: Iterator[int], by: By, pool: Pool) -> Program:
    """The program of a block; every step takes the next of ``positions``."""

    def lowered(part: Part) -> Step | If | While:
        match part:
            case Node():
                return _step(part, next(positions), by, pool)
            case Copy():
                return _copy(part, next(positions), pool)
            case Branch():
                return If(part.condition, program(part.then), program(part.orelse))
            case Repeat():
                return While(part.condition, program(part.test), program(part.body))

    def program(inner: Block) -> Program:
        return tuple(map(lowered, inner))

    return program(block)


def _copy(copy: Copy, position: int, pool: Pool) -> Step:
    node, source, to = copy.node, copy.source, copy.to
    need(not to.too_large, node, f"{to} takes 2 GiB or more")
    call = Call(COPY, {"size": to.nbytes}, (_shared(source, node, 0, pool),), (to,), inplace=(0,))
    return Step(node, position, call, (call,))


def _step(node: Node, position: int, by: By, pool: Pool) -> Step:
    return step_of(node, position, *by(node), pool)


def step_of(node: Node, position: int, call: Call, choice: Choice, pool: Pool) -> Step:
    """The step that a call is, over constants of the pool."""
    call = _pooled(call, node, pool)
    if call.rows_call is not None:
        call = replace(call, rows_call=_pooled(call.rows_call, node, pool))
    scratch = Tensor(f"scratch of {node}", "INT8", (call.scratch,)) if call.scratch else None
    return Step(node, position, call, (call,), scratch, choice)


def _pooled(call: Call, node: Node, pool: Pool) -> Call:
    """The call over constants of the pool."""
    inputs = (_shared(argument, node, place, pool) for place, argument in enumerate(call.inputs))
    return replace(call, inputs=tuple(inputs))


def _lowered(node: Node, target: Target, settings: Settings, larger: bool, few: bool) -> tuple[Call, Choice]:
    for tensor in (*node.inputs, *node.outputs):  # texts are made for errors alone: they take a fifth of planning
        if tensor is not None and tensor.too_large:
            raise ModelError(f"{node}: {tensor} takes 2 GiB or more")
    for tensor, shape in zip(node.outputs, infer_node(node), strict=True):
        if shape != tensor.shape:
            raise ModelError(f"{node}: the model says {tensor}, but the inputs give shape {list(shape)}")
    call, choice = guarded(
        node, lambda: _as_set(node, target, settings) or lower_node(node, target, larger=larger, few=few)
    )
    own = [t for t in call.written if t.variable and t not in (*node.inputs, *node.outputs)]
    if own and not keeps_state(node):
        raise OperatorError(f"{node}: lower makes the variable {own[0]}; its Op(...) must say keeps_state=True")
    return call, choice


def _as_set(node: Node, target: Target, settings: Settings) -> tuple[Call, Choice] | None:
    """The call that the settings want; None if they know nothing of the node, or it cannot be had any more."""
    if not settings:
        return None
    from twinfer.runtime.plan.tuned import alternatives, key

    wanted = settings.get(key(node))
    return next(((call, Choice(each.variant)) for each, call in alternatives(node, target) if each == wanted), None)


def lower_node(node: Node, target: Target, *, larger: bool = True, few: bool = True) -> tuple[Call, Choice]:
    """The call of the best variant that does not decline, in plain C if all do, and what was chosen.

    ``larger``, ``few``: it may be such a variant (``Variant``). ``infer`` must have agreed with the node.
    """
    declined, op = list[tuple[str, str]](), operator(node)
    for variant, said in attempts(node, target):
        if (variant.larger and not larger) or (variant.few and not few):
            continue
        if isinstance(said, Call):
            return said, Choice(variant.name, tuple(declined))
        if op.name in variant.ops:
            declined.append((variant.name, str(said)))
    return op.lower(node, target), Choice(declined=tuple(declined))


def _shared(argument: Argument, node: Node, place: int, pool: Pool) -> Argument:
    """The argument; if it is a constant, the copy that ``pool`` keeps of it."""
    if isinstance(argument, Tensor) and argument.data is not None:
        return pool.value(argument)
    if isinstance(argument, Constant):
        tensor = argument.tensor
        return pool.packed(argument, node, place) if tensor is None else pool.value(tensor, argument.role)
    return argument
