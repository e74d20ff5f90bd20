"""Random graphs: with shared memory, steps in place and dropped steps, outputs equal those of separate memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.runtime.check import check
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Options, Technique
from twinfer.runtime.plan import arena
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Alias
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import TARGETS

#: Shapes of 24 elements, which RESHAPE turns into each other, and their halves.
SHAPES = ((24,), (4, 6), (2, 3, 4), (1, 4, 6), (12,), (2, 6), (1, 3, 4))


class Growing:
    """A growing chain of operators, chosen by ``draw``."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []

    def add(self, shape: tuple[int, ...], **more: Any) -> Tensor:
        added = tensor(shape, "INT8", 0.5, -3, name=f"t{len(self.tensors)}", data=more.pop("data", None))
        added = Tensor(added.name, added.type, added.shape, added.quant, added.data, **more)
        self.tensors.append(added)
        return added

    def pick(self, shapes: tuple[tuple[int, ...], ...] | None = None) -> Tensor:
        """A tensor so far; later ones more often, so that chains grow."""
        fit = [t for t in self.tensors if shapes is None or t.shape in shapes]
        return self.draw(st.sampled_from([*fit, *fit[-3:]]))

    def node(self, op: str, inputs: tuple[Tensor, ...], *shapes: tuple[int, ...], **options: Any) -> None:
        outputs = tuple(self.add(shape) for shape in shapes)
        self.nodes.append(Node(op, inputs, outputs, options, index=len(self.nodes)))

    def constant(self, values: Any) -> Tensor:
        """A shape argument: it is in the graph, but is never drawn as a value."""
        return tensor(np.shape(values), "INT32", data=np.array(values), name="k")

    # -- operators -------------------------------------------------------------------------------------------------

    def unary(self) -> None:
        x = self.pick()
        op = self.draw(st.sampled_from(["RELU", "RELU6", "LOGISTIC", "LEAKY_RELU", "SOFTMAX"]))
        if op != "SOFTMAX":
            return self.node(op, (x,), x.shape, alpha=0.5)
        self.tensors.append(Tensor(f"t{len(self.tensors)}", "INT8", x.shape, tensor((), "INT8", 1 / 256, -128).quant))
        self.nodes.append(Node(op, (x,), (self.tensors[-1],), {"beta": 1.0}, index=len(self.nodes)))
        return None

    def binary(self) -> None:
        a = self.pick()
        b = self.pick((a.shape, a.shape[-1:]))
        op = self.draw(st.sampled_from(["ADD", "SUB", "MUL", "MAXIMUM"]))
        operands = (b, a) if self.draw(st.booleans()) else (a, b)
        self.node(op, operands, a.shape, fused_activation_function="NONE")

    def assign(self) -> None:
        """Writes a variable, once."""
        written = {t for n in self.nodes for t in n.outputs}
        for state in (t for t in self.tensors if t.variable and t not in written):
            x = self.pick((state.shape,))
            if x is not state:
                self.nodes.append(Node("RELU", (x,), (state,), index=len(self.nodes)))

    def reshape(self) -> None:
        x = self.pick()
        shape = self.draw(st.sampled_from([x.shape, *(s for s in SHAPES if math.prod(s) == x.size)]))
        self.node("RESHAPE", (x,), shape, new_shape=shape)

    def split(self) -> None:
        x = self.pick(((24,), (4, 6), (2, 3, 4)))
        part = (x.shape[0] // 2, *x.shape[1:])
        self.node("SPLIT", (self.constant(0), x), part, part, num_splits=2)

    def concatenation(self) -> None:
        x = self.pick(((12,), (2, 6), (1, 3, 4)))
        y = self.pick((x.shape,))
        if x.quant == y.quant == self.tensors[0].quant:
            shape = (2 * x.shape[0], *x.shape[1:])
            self.node("CONCATENATION", (x, y), shape, axis=0, fused_activation_function="NONE")

    def transpose(self) -> None:
        x = self.pick(((4, 6), (2, 6)))
        self.node("TRANSPOSE", (x, self.constant((1, 0))), x.shape[::-1])

    def mean(self) -> None:
        x = self.pick(((24,), (4, 6), (2, 3, 4)))
        self.node("MEAN", (x, self.constant((0,))), (1, *x.shape[1:]), keep_dims=True)


KINDS = ("unary", "binary", "binary", "reshape", "split", "concatenation", "transpose", "mean", "assign")


@st.composite
def graphs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Graph:
    """Inputs, variables and a constant, operators over them, and any of the tensors as outputs, some of them twice."""
    g = Growing(draw)
    inputs = [g.add(shape) for shape in draw(st.lists(st.sampled_from(SHAPES[:4]), min_size=1, max_size=3))]
    for _ in range(draw(st.integers(0, 1))):
        g.add(draw(st.sampled_from(SHAPES[:3])), variable=True)
    g.add((4, 6), data=np.arange(24) - 12)
    inputs += [g.add(shape) for shape in ((12,), (6,), (6,))]
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=12)):
        getattr(g, kind)()
    last = g.nodes[-1].outputs if g.nodes else ()
    outputs = (*last, *draw(st.lists(st.sampled_from(g.tensors), max_size=4)))
    constants = [t for n in g.nodes for t in n.inputs if t is not None and t not in g.tensors]
    return Graph("random", (*g.tensors, *constants), tuple(g.nodes), tuple(inputs), outputs)


def twice(engine: Session, plan: Plan) -> list[bytes]:
    """The outputs of two runs with different inputs, and the variables after them."""
    seen = []
    engine.reset_variables()
    for seed in (1, 2):
        poison(engine)
        engine.feed(random_inputs(plan.graph, seed))
        engine.run()
        seen += [engine.view(t).tobytes() for t in (*plan.graph.outputs, *plan.variables)]
    return seen


def assert_sound(plan: Plan) -> None:
    """No tensor shares memory with one whose value is still needed, unless it replaces it or is the same value."""
    same = {part.to for part in plan.program if isinstance(part, Alias) and part.source.variable}
    others = [t for t in plan.offsets if t not in same]
    blocks = [arena.Block(t.nbytes, *plan.lives[t]) for t in others]
    places = [plan.offsets[t] for t in others]
    for i, (a, at) in enumerate(zip(blocks, places, strict=True)):
        for b, bt in zip(blocks[:i], places[:i], strict=True):
            handed_over = a.first == b.last or b.first == a.last
            apart = a.last < b.first or b.last < a.first or at + a.size <= bt or bt + b.size <= at
            assert apart or handed_over
    ends = {
        region: max((place.offset + t.nbytes for t, place in plan.places.items() if place.region == region), default=0)
        for region in plan.regions
    }
    assert {region: extent.nbytes for region, extent in plan.regions.items()} == ends
    assert (plan.arena_bytes, plan.state_bytes) == (ends[Region.ARENA], ends[Region.STATE])
    lasting = [t for t, place in plan.places.items() if place.region == Region.STATE]
    assert not lasting or plan.regions[Region.STATE].offset >= plan.arena_bytes
    assert plan.memory_bytes == max(plan.offsets[t] + t.nbytes for t in plan.offsets)
    assert plan.scratch_bytes == max((t.nbytes for t in scratch_of(plan)), default=0)
    assert plan.constant_bytes == sum(constant.array.nbytes for constant in plan.constants)


@settings(max_examples=250, deadline=None)
@given(graphs(), st.sampled_from(TARGETS))
def test_shared_memory_gives_the_values_of_separate_memory(graph: Graph, target: Any) -> None:
    check(graph)
    plan, separate = make_plan(graph, target), make_plan(graph, target, options=Options(preserve_all=True))
    assert_sound(plan)
    assert plan.lower_bound_bytes <= plan.arena_bytes <= separate.arena_bytes
    assert twice(Session(plan), plan) == twice(Session(separate), separate)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.sampled_from(TARGETS), st.frozensets(st.sampled_from(get_args(Technique)), min_size=1))
def test_a_plan_without_a_technique_gives_the_same_values(graph: Graph, target: Any, without: Any) -> None:
    check(graph)
    plan, less = make_plan(graph, target), make_plan(graph, target, Options(without=without))
    if "placement" not in without:  # or all live for ever
        assert_sound(less)
    assert twice(Session(less), less) == twice(Session(plan), plan)
    blocks = [less.offsets[tensor] for tensor in less.offsets if tensor.nbytes and tensor not in scratch_of(less)]
    if "placement" in without and "in_place" in without:
        assert len(set(blocks)) == len(blocks), "every tensor lies apart"


def scratch_of(plan: Plan) -> set[Tensor]:
    return {step.scratch for step in plan.steps if step.scratch is not None}
