"""Graph -> Plan: the stages in which a model is planned, each a function from one type to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from twinfer.runtime.check import check, need_graph
from twinfer.runtime.constant import Constant
from twinfer.runtime.control import reachable
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.passes.folding import fold
from twinfer.runtime.passes.fusing import check_fuses, fuse_products
from twinfer.runtime.passes.stacking import stack
from twinfer.runtime.passes.unsigned import make_signed
from twinfer.runtime.passes.zero_points import without_zero_points
from twinfer.runtime.plan import replay
from twinfer.runtime.plan.first_values import first_values
from twinfer.runtime.plan.flow import Flow
from twinfer.runtime.plan.inline import inline
from twinfer.runtime.plan.larger import with_larger
from twinfer.runtime.plan.lower import UNTUNED, Lowered, lower
from twinfer.runtime.plan.memory import Memory, place
from twinfer.runtime.plan.plan import Place, Plan
from twinfer.runtime.program import COPY, Alias, Chain, Step, calls_of
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.stages import Stage, tell
from twinfer.runtime.target import HOST, Target
from twinfer.runtime.walks import steps_of, with_steps

if TYPE_CHECKING:
    from twinfer.runtime.plan.tuned import Settings


class Job(NamedTuple):
    """What a graph is planned for. ``settings`` say how some nodes are lowered."""

    target: Target
    options: Options
    settings: Settings

    @property
    def fuses(self) -> bool:
        """Whether operators may become one."""
        return not (self.options.preserve_all or "fusion" in self.options.without)


def make_plan(graph: Graph, target: Target = HOST, options: Options = USUAL, settings: Settings | None = None) -> Plan:
    """Lower every operator for ``target``, store its weights as ``options`` say, and place all tensors in one arena.

    Shapes that the file leaves open are inferred first: ``plan.graph`` is the graph that was planned. Raises ModelError
    for a graph that contradicts itself, UnsupportedOperatorError for an operator without a kernel. ``settings`` are
    taken in place of those that ``options.tuned`` takes.
    """
    need_graph(graph)
    if settings is None and options.tuned:
        from twinfer.runtime.plan import tuned  # reads files, which takes a while to import

        settings = tuned.load(target)
    job = Job(target, options, settings or UNTUNED)
    value: Any = graph
    for name, about, stage in STAGES:
        before, value = value, stage(value, job)
        tell(name, about, before, value)
    plan: Plan = value
    return plan


def _shapes(graph: Graph, job: Job) -> Graph:
    def infer(each: Graph) -> Graph:
        each = infer_shapes(each)
        check(each, inputs_written=True)
        return each

    return _everywhere(graph, infer)


def _floats(graph: Graph, job: Job) -> Graph:
    if job.options.floats == "exact":
        return graph
    check_fuses(job.target)
    return _everywhere(graph, fuse_products)


def _padding(graph: Graph, job: Job) -> Graph:
    return _everywhere(graph, fold) if job.fuses else graph


def _unsigned(graph: Graph, job: Job) -> Graph:
    return _everywhere(graph, lambda each: make_signed(each, keep=job.options.preserve_all))


def _zero_points(graph: Graph, job: Job) -> Graph:
    return _everywhere(graph, without_zero_points)


def _tables(graph: Graph, job: Job) -> Graph:
    return _everywhere(graph, stack) if job.fuses else graph


def _everywhere(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with a change to it and to every subgraph that it calls."""
    main = change(graph)
    if not main.subgraphs:
        return main
    others = list(main.subgraphs)  # those of the file, and copies for calls with other shapes
    for index in reachable((main, *others)):
        others[index - 1] = change(others[index - 1])
    return main if tuple(others) == main.subgraphs else replace(main, subgraphs=tuple(others))


def _lower(flow: Flow, job: Job) -> Lowered:
    coded = job.options.codes(False)  # larger constants, and those without blocks of zeros, cannot be
    larger, few = not (job.target.flash_is_dear or coded), not coded and job.options.weights_as == "linked"
    return with_larger(lower(flow, job.target, job.settings, larger=larger, few=few), job.target, job.options)


def _code(lowered: Lowered, job: Job) -> Lowered:
    if job.options.codes(job.target.flash_is_dear):
        from twinfer.runtime.plan.coding import store  # of no use to most plans of a computer

        lowered = store(lowered, job.target, job.options)
    if job.options.weights_as != "linked":
        from twinfer.runtime.plan.apart import quantized_apart

        lowered = quantized_apart(lowered)
    return lowered


def _threads(lowered: Lowered, job: Job) -> Lowered:
    if job.options.threads == 1:
        return lowered
    from twinfer.runtime.plan.split import with_scratch

    program = with_steps(lowered.program, lambda step: with_scratch(step, job.options.threads))
    return replace(lowered, program=program)


def _place(lowered: Lowered, job: Job) -> Memory:
    return place(lowered, job.target, job.options)


def _finish(memory: Memory, job: Job) -> Plan:
    """The plan without the steps that its places make needless; RuntimeError if a step would find another value."""
    lowered, lives, places = memory.lowered, memory.lives, memory.solution.places
    flow, pool = lowered.flow, lowered.pool
    graph = flow.graph
    program = with_steps(lowered.program, lambda step: _without_copy(step, places))
    start = [step for step in lowered.start if isinstance(_without_copy(step, places), Step)]
    first, start = first_values([t for t in lives.state if t.variable or t in graph.inputs], start)
    outputs = tuple(t if t.data is None else pool.value(t) for t in graph.outputs)
    read = [value for step in (*start, *steps_of(program)) for value in step.read]
    read += [
        value for part in program if isinstance(part, Chain) for call in calls_of(part.before) for value in call.read
    ]
    saved = [step for part in lowered.program if isinstance(part, Chain) for step in part.views]
    by_position = sorted([*lowered.steps, *saved], key=lambda step: step.position)
    plan = Plan(
        graph=graph,
        target=job.target,
        options=job.options,
        program=program,
        start=tuple(start),
        constants=tuple(dict.fromkeys(value for value in (*read, *outputs) if isinstance(value, Constant))),
        outputs=outputs,
        places=places,
        regions=memory.solution.regions,
        lives=lives.lives,
        lower_bound_bytes=memory.task.lower_bound,
        forced_at=memory.task.forced_at,
        proven=memory.solution.proven,
        first_values=first,
        nodes=tuple(step.node for step in by_position),
        resources={key: each for key, each in flow.resources.items() if each.tensor in places},
    )
    if fault := replay.fault(plan):
        raise RuntimeError(f"the planner is wrong: {fault}")
    return plan


def _without_copy(step: Step, places: Mapping[Tensor, Place]) -> Step | Alias | None:
    """The step; what stands for it if it copies a value that is in place already; None if it writes nothing at all."""
    outputs = step.call.written
    if all(tensor.size == 0 for tensor in outputs):
        return None
    source = step.call.inputs[0] if step.call.kernel == COPY else None
    if isinstance(source, Tensor) and source in places and places[source] == places[outputs[0]]:
        return Alias(source, outputs[0])
    return step


#: All of planning. What each stage gets and gives, beside the Job:
STAGES = (
    # Graph -> Graph
    Stage("Shapes", "Shapes that the file leaves open are inferred.", _shapes),
    Stage("Floats", "Products of float32 are fused into their sums, if asked for.", _floats),
    Stage("Padding", "PAD goes into the operators behind it.", _padding),
    Stage("Unsigned", "uint8 becomes int8.", _unsigned),
    Stage("Zeros", "Weights lose their zero point; the few that leave int8 are split.", _zero_points),
    Stage("Tables", "Operators over one value of 8 bits become one table.", _tables),
    # Graph -> Flow
    Stage("Inline", "Subgraphs stand in the place of the nodes that call them.", lambda graph, job: inline(graph)),
    # Flow -> Lowered
    Stage("Lower", "Every operator becomes the call of a kernel.", _lower),
    # Lowered -> Lowered
    Stage("Weights", "Weights are stored in fewer bytes.", _code),
    Stage("Threads", "Large layers get memory for the rows of each thread.", _threads),
    # Lowered -> Memory
    Stage("Place", "Every tensor gets a place in memory, by layers or row by row.", _place),
    # Memory -> Plan
    Stage("Plan", "Copies of what is in place already go; a replay proves that every step finds its values.", _finish),
)
