"""Graph -> Plan, step by step: inline subgraphs, lower, store weights, lifetimes, problem, solution, plan."""

from __future__ import annotations

from collections.abc import Mapping

from twinfer.runtime.check import check, need_graph
from twinfer.runtime.constant import Constant, Pool
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan import coding
from twinfer.runtime.plan.inline import inlined
from twinfer.runtime.plan.lifetimes import lifetimes
from twinfer.runtime.plan.lower import lower
from twinfer.runtime.plan.placement import problem, solved
from twinfer.runtime.plan.plan import Place, Plan
from twinfer.runtime.program import COPY, Call, steps_of, with_steps
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.target import HOST, Target


def make_plan(graph: Graph, target: Target = HOST, options: Options = USUAL) -> Plan:
    """Lower every operator for ``target``, store its weights as ``options`` say, and place all tensors in one arena.

    Shapes that the file leaves open are inferred first: ``plan.graph`` is the graph that was planned. Raises ModelError
    for a graph that contradicts itself, UnsupportedOperatorError for an operator without a kernel.
    """
    need_graph(graph)
    graph = infer_shapes(graph)
    check(graph)
    pool = Pool(graph)
    stored = coding.store(lower(inlined(graph), target, pool), target, options, pool)
    lives = lifetimes(graph, stored, keep=options.preserve_all)
    task = problem(lives, target.alignment)
    solution = solved(task, graph.name)
    program = with_steps(stored.program, lambda step: None if _dropped(step.call, solution.places) else step)
    outputs = tuple(t if t.data is None else pool.value(t) for t in graph.outputs)
    read = (*(value for step in (*stored.start, *steps_of(program)) for value in step.read), *outputs)
    return Plan(
        graph=graph,
        target=target,
        options=options,
        program=program,
        start=stored.start,
        constants=tuple(dict.fromkeys(value for value in read if isinstance(value, Constant))),
        outputs=outputs,
        places=solution.places,
        regions=solution.regions,
        lives=lives.lives,
        lower_bound_bytes=task.lower_bound,
    )


def _dropped(call: Call, places: Mapping[Tensor, Place]) -> bool:
    """Whether a call copies a value that is in place already, or writes nothing at all."""
    outputs = list(call.written)
    if all(tensor.size == 0 for tensor in outputs):
        return True
    source = call.inputs[0] if call.kernel == COPY else None
    return isinstance(source, Tensor) and source in places and places[source] == places[outputs[0]]
