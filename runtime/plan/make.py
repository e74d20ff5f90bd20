"""Graph -> Plan, step by step: inline subgraphs, lower, store weights, lifetimes, problem, solution, plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from twinfer.runtime.check import check, need_graph
from twinfer.runtime.constant import Constant, Pool
from twinfer.runtime.control import reachable
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.passes.folding import folded
from twinfer.runtime.passes.stacking import stacked
from twinfer.runtime.passes.unsigned import signed
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.first_values import first_values
from twinfer.runtime.plan.inline import inlined
from twinfer.runtime.plan.lower import UNTUNED, lower
from twinfer.runtime.plan.memory import placed
from twinfer.runtime.plan.plan import Place, Plan
from twinfer.runtime.program import COPY, Chain, Program, Same, Step
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.target import HOST, Target
from twinfer.runtime.walks import steps_of, with_steps

if TYPE_CHECKING:
    from twinfer.runtime.plan.tuned import Settings

#: What is done to a graph whose shapes are known before it is lowered: name, what it is, function.
GRAPH_STAGES: tuple[tuple[str, str, Callable[[Graph], Graph]], ...] = (
    ("Padding", "PAD goes into the operators behind it.", folded),
    ("Unsigned", "uint8 becomes int8.", signed),
    ("Tables", "Operators over one value of 8 bits become one table.", stacked),
)


def make_plan(graph: Graph, target: Target = HOST, options: Options = USUAL, settings: Settings | None = None) -> Plan:
    """Lower every operator for ``target``, store its weights as ``options`` say, and place all tensors in one arena.

    Shapes that the file leaves open are inferred first: ``plan.graph`` is the graph that was planned. Raises ModelError
    for a graph that contradicts itself, UnsupportedOperatorError for an operator without a kernel. ``settings`` are
    taken in place of those that ``options.tuned`` takes.
    """
    graph = _prepared(graph, options)
    pool = Pool(graph)
    flow = inlined(graph)
    stored = lower(flow, target, pool, _settings(settings, target, options))
    if options.codes(target.flash_is_dear):
        from twinfer.runtime.plan.coding import store  # of no use to most plans of a computer

        stored = store(stored, target, options, pool)
    memory = placed(graph, stored, target, options)
    stored, lives, solution = memory.stored, memory.lives, memory.solution
    program = with_steps(stored.program, lambda step: _needed(step, solution.places))
    begun = [step for step in stored.start if _needed(step, solution.places) is step]
    first, start = first_values([t for t in lives.state if t.variable or t in graph.inputs], begun)
    outputs = tuple(t if t.data is None else pool.value(t) for t in graph.outputs)
    plan = Plan(
        graph=graph,
        target=target,
        options=options,
        program=program,
        start=start,
        constants=_constants((*start, *steps_of(program)), outputs),
        outputs=outputs,
        places=solution.places,
        regions=solution.regions,
        lives=lives.lives,
        lower_bound_bytes=memory.task.lower_bound,
        forced_at=memory.task.forced_at,
        proven=solution.proven,
        first_values=first,
        nodes=tuple(step.node for step in _planned(stored.program)),
        resources={key: each for key, each in flow.resources.items() if each.tensor in solution.places},
    )
    _prove(plan)
    return plan


def _settings(given: Settings | None, target: Target, options: Options) -> Settings:
    if given is not None or not options.tuned:
        return given or UNTUNED
    from twinfer.runtime.plan.tuned import kept  # reads files, which takes a while to import

    return kept(target)


def _planned(program: Program) -> list[Step]:
    """The steps of a program by position, with the copies that its chains save."""
    views = (step for part in program if isinstance(part, Chain) for step in part.views)
    return sorted([*steps_of(program), *views], key=lambda step: step.position)


def _prove(plan: Plan) -> None:
    """RuntimeError if a step would not find the values that it reads."""
    if fault := replay.fault(plan):
        raise RuntimeError(f"the planner is wrong: {fault}")


def _constants(steps: Iterable[Step], outputs: Iterable[Tensor | Constant]) -> tuple[Constant, ...]:
    """The constants that steps read or that are outputs, each once."""
    read = (*(value for step in steps for value in step.read), *outputs)
    return tuple(dict.fromkeys(value for value in read if isinstance(value, Constant)))


def _prepared(graph: Graph, options: Options) -> Graph:
    """The graph as operators are planned, and every subgraph that it calls."""
    need_graph(graph)
    main = _signed(infer_shapes(graph), options)
    others = list(main.subgraphs)  # those of the file, and copies for calls with other shapes
    for index in reachable((main, *others)):
        others[index - 1] = _signed(infer_shapes(others[index - 1]), options)
    return main if tuple(others) == main.subgraphs else replace(main, subgraphs=tuple(others))


def _signed(graph: Graph, options: Options) -> Graph:
    check(graph, inputs_written=True)
    if options.preserve_all or "fusion" in options.without:
        return signed(graph, keep=options.preserve_all)
    for _, _, stage in GRAPH_STAGES:
        graph = stage(graph)
    return graph


def _needed(step: Step, places: Mapping[Tensor, Place]) -> Step | Same | None:
    """The step, unless it copies a value that is in place already or writes nothing at all."""
    outputs = list(step.call.written)
    if all(tensor.size == 0 for tensor in outputs):
        return None
    source = step.call.inputs[0] if step.call.kernel == COPY else None
    same = isinstance(source, Tensor) and source in places and places[source] == places[outputs[0]]
    return Same(source, outputs[0]) if same and isinstance(source, Tensor) else step
