"""Graph -> Plan, step by step: lower, store weights, lifetimes, problem, solution, plan."""

from __future__ import annotations

from collections.abc import Mapping

from twinfer.runtime.check import check, need_graph
from twinfer.runtime.constant import Constant, Pool
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan import coding
from twinfer.runtime.plan.lifetimes import lifetimes
from twinfer.runtime.plan.lower import lower
from twinfer.runtime.plan.placement import problem, solved
from twinfer.runtime.plan.plan import Place, Plan
from twinfer.runtime.program import Call
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.target import HOST, Target
from twinfer.runtime.unsigned import signed

#: The kernel that only copies a value; its call is dropped where input and output share their memory.
COPY = "tw_copy"


def make_plan(graph: Graph, target: Target = HOST, options: Options = USUAL) -> Plan:
    """Lower every operator for ``target``, store its weights as ``options`` say, and place all tensors in one arena.

    Shapes that the file leaves open are inferred first: ``plan.graph`` is the graph that was planned. Raises ModelError
    for a graph that contradicts itself, UnsupportedOperatorError for an operator without a kernel.
    """
    need_graph(graph)
    graph = infer_shapes(graph)
    check(graph)
    graph = signed(graph, keep=options.preserve_all)
    pool = Pool(graph)
    stored = coding.store(lower(graph, target, pool), target, options, pool)
    lives = lifetimes(graph, stored, keep=options.preserve_all)
    task = problem(lives, target.alignment)
    solution = solved(task, graph.name)
    steps = tuple(step for step in stored.steps if not _dropped(step.call, solution.places))
    outputs = tuple(t if t.data is None else pool.value(t) for t in graph.outputs)
    read = (*(value for step in (*stored.start, *steps) for value in step.read), *outputs)
    return Plan(
        graph=graph,
        target=target,
        options=options,
        steps=steps,
        start=stored.start,
        constants=tuple(dict.fromkeys(value for value in read if isinstance(value, Constant))),
        outputs=outputs,
        places=solution.places,
        regions=solution.regions,
        lives=lives.lives,
        arena_bytes=solution.arena_bytes,
        lower_bound_bytes=task.lower_bound,
    )


def _dropped(call: Call, places: Mapping[Tensor, Place]) -> bool:
    """Whether a call copies a value that is in place already, or writes nothing at all."""
    outputs = list(call.written)
    if all(tensor.size == 0 for tensor in outputs):
        return True
    source = call.inputs[0] if call.kernel == COPY else None
    return isinstance(source, Tensor) and source in places and places[source] == places[outputs[0]]
