"""The operators' cases as models, and ways to run them, for the tests that take every case."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from needs import sampled
from unsigned import meaning, unsigned_cases

from twinfer import kernels_c
from twinfer.aot.build.firmware import build
from twinfer.aot.build.host import CompiledSession, flags_at, loaded
from twinfer.aot.build.host import build as build_library
from twinfer.aot.build.project import project_files
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import Case
from twinfer.runtime.options import USUAL, Optimize, Options
from twinfer.runtime.plan.choice import Policy, share_all
from twinfer.runtime.plan.first_values import first_value
from twinfer.runtime.plan.lower import UNTUNED, Lowered
from twinfer.runtime.plan.make import STAGES, make_plan
from twinfer.runtime.plan.make import Job as Planning
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Argument, Loop, Step, part_of
from twinfer.runtime.registry import operators, variants
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.shapes import infer_node
from twinfer.runtime.target import TARGETS, Target
from twinfer.runtime.tools import find_compiler, run_tool, write_files
from twinfer.runtime.walks import unroll

SEED = 20261121

#: What emitted code has none of.
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")

#: Without optimisation: nothing is folded away before the sanitizers see it, and compiling is fastest.
SANITIZE = ("-std=c11", "-O0", "-ffp-contract=off", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

_MATH = "exp expm1 erfc tanh log log1p sqrt floor ceil round rint nearbyint sin cos atan2 pow fmod fmax fmin trunc"

#: All symbols that emitted code may need: string.h, math.h, and what compilers add themselves.
ALLOWED_SYMBOLS = frozenset(
    ["memcpy", "memmove", "memset", "memcmp", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"]
    + [f"{name}{end}" for name in _MATH.split() for end in ("", "f")]
)

#: Operators of every kind: what random models have beside the one that is tried, so that a new operator changes none.
COMMON = (
    "ADD", "ARG_MAX", "AVERAGE_POOL_2D", "CAST", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DEQUANTIZE", "ELU",
    "EXPAND_DIMS", "FULLY_CONNECTED", "GATHER", "GREATER", "LEAKY_RELU", "LOGICAL_AND", "LOGISTIC", "MAXIMUM",
    "MAX_POOL_2D", "MEAN", "MUL", "NEG", "PACK", "PAD", "QUANTIZE", "RELU", "RESHAPE", "RESIZE_BILINEAR", "REVERSE_V2",
    "RSQRT", "SELECT_V2", "SLICE", "SOFTMAX", "SPLIT", "SQUARED_DIFFERENCE", "STRIDED_SLICE", "SUB", "SUM", "SVDF",
    "TILE", "TRANSPOSE", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM",
)  # fmt: skip


def cases_of(op: str) -> dict[str, Case]:
    """The cases of an operator by test name, those of uint8 that follow from int8 behind the operator's own."""
    return dict(_cases(op, operators()[op].cases))


@cache
def _cases(op: str, make: Callable[[np.random.Generator], Iterable[Case]]) -> dict[str, Case]:
    name = op.removeprefix("CUSTOM:").lower()
    named = {f"{name}-{i}": case for i, case in enumerate(make(np.random.default_rng(SEED)))}
    return named | unsigned_cases(op, named)


@contextmanager
def about(name: str) -> Iterator[None]:
    """Names the case of many that fails."""
    try:
        yield
    except Exception as error:
        error.add_note(f"case {name}")
        raise


def graph_of(node: Node) -> Graph:
    """The node alone as a model; tensors get names of their own, for people."""
    listed = (*node.inputs, *node.extra.get("intermediates", ()))
    tensors = tuple(dict.fromkeys(t for t in listed if t is not None))
    inputs = tuple(t for t in tensors if t in node.inputs and t.data is None and not t.variable)
    others = tuple(t for t in tensors if t not in inputs)
    return Graph("case", (*inputs, *others, *node.outputs), (node,), inputs, node.outputs)


def fed(node: Node) -> list[Tensor]:
    """The inputs of a node alone that a caller gives: neither constants nor states."""
    return [t for t in dict.fromkeys(node.inputs) if t is not None and t.data is None and not t.variable]


def values_of(case: Case, graph: Graph) -> list[Any]:
    if case.inputs is not None:
        return list(case.inputs)
    return [v * 3 if v.dtype.kind == "f" else v for v in random_inputs(graph, SEED)]


def first_array(variable: Tensor) -> Array:
    """The value of a variable before the first run."""
    return np.full(variable.nbytes, first_value(variable), np.uint8).view(variable.dtype).reshape(variable.shape)


def numpy_outputs(case: Case, graph: Graph, values: Sequence[Any]) -> list[Any]:
    fed = dict(zip(graph.inputs, values, strict=True))
    fed |= {t: first_array(t) for t in graph.tensors if t.variable}
    outputs = meaning(graph, fed)
    for tensor, value in zip(case.node.outputs, outputs, strict=True):
        assert value.dtype == tensor.dtype, f"reference gives {value.dtype} for {tensor}"
        assert value.shape == tensor.shape, f"reference gives {value.shape} for {tensor}"
    return outputs


def outputs_of(engine: Session, values: Sequence[Any]) -> list[Any]:
    """The outputs of one run."""
    return runs_of(engine, [values])[0]


def runs_of(engine: Session, sequence: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The outputs of runs from the first state on; memory that need not last is full of rubbish before each."""
    engine.reset_variables()
    outputs = []
    for values in sequence:
        poison(engine)
        engine.feed(values)
        engine.run()
        outputs.append(engine.outputs())
    return outputs


def over_rubbish(engine: Session, graph: Graph, seed: int = 1) -> list[Array]:
    """The outputs of one run for random inputs, over memory full of rubbish."""
    outputs: list[Array] = outputs_of(engine, random_inputs(graph, seed))
    return outputs


def same(got: Sequence[Array], want: Sequence[Array]) -> None:
    """Fails unless both are the same arrays."""
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine, other)


def interpreted(graph: Graph, values: Sequence[Any], target: Any, level: int) -> list[Any]:
    return outputs_of(Session(make_plan(graph, target), level), values)


def lowered(graph: Graph, target: Target, options: Options = USUAL) -> Lowered:
    """What ``make_plan`` makes of a graph before anything gets a place, which takes most of its time."""
    value: Any = graph
    for name, _, stage in STAGES:
        if name == "Place":
            break
        value = stage(value, Planning(target, options, UNTUNED))
    made: Lowered = value
    return made


def distinct_plans(
    graph: Graph, targets: Iterable[Target], options: Options = USUAL, make: Callable[..., Any] = make_plan
) -> Iterator[tuple[Target, Any]]:
    """A plan per target, or what else ``make`` makes of it; of those with the same program only the first."""
    seen, kinds = set[str](), set[object]()
    for target in targets:
        if (kind := _kind(graph, target, options)) in kinds:
            continue
        kinds.add(kind)
        plan = make(graph, target, options)
        text = repr(list(_content(plan.steps)))
        if text not in seen:
            seen.add(text)
            yield target, plan


def _kind(graph: Graph, target: Target, options: Options) -> object:
    """What of a target tells in a plan of a single node: beside its sizes, the variants that it may take."""
    if len(graph.nodes) != 1 or graph.subgraphs or options != USUAL:
        return target
    served = tuple(variant for variant in variants(graph.nodes[0].op) if target.has(*variant.needs))
    return dataclasses.replace(target, name="", features=target.features & {"simd", "armv6-m"}), served


class Planned(NamedTuple):
    """A case of an operator, planned for a target."""

    name: str
    graph: Graph
    values: list[Any]
    plan: Plan


def planned(op: str, targets: Iterable[Target], every: int = 1, of: str | None = None) -> Iterator[Planned]:
    """The operator's cases, or a sample ``of`` them, for each target whose plan is another."""
    for name, case in sampled(cases_of(op).items(), every, of or op):
        graph = graph_of(case.node)
        for target, plan in distinct_plans(graph, targets):
            yield _planned(name, case, graph, target, plan)


def _planned(name: str, case: Case, graph: Graph, target: Target, plan: Plan) -> Planned:
    return Planned(f"{target.name}_{name}".replace("-", "_"), graph, values_of(case, graph), plan)


def by_kernels(ops: Iterable[str], targets: Collection[Target]) -> list[tuple[Planned, Planned]]:
    """Of the cases of each operator that call the same kernels for a target, the first and the last, planned."""
    alike: dict[object, list[tuple[str, Case, Graph, Target]]] = {}
    for op in ops:
        for name, case in cases_of(op).items():
            graph = graph_of(case.node)
            for target, made in distinct_plans(graph, targets, make=lowered):
                kernels = dict.fromkeys(call.kernel for step in made.steps for call, _ in unroll(step.body))
                alike.setdefault((op, target, *kernels), []).append((name, case, graph, target))
    ends = [(found[0], found[-1]) for found in alike.values()]
    plans = {each[0] + each[3].name: _planned(*each, make_plan(*each[2:])) for pair in ends for each in pair}
    return [(plans[a[0] + a[3].name], plans[b[0] + b[3].name]) for a, b in ends]


def assert_exact(
    node: Node, values: Sequence[Array], targets: Iterable[Target] = TARGETS, options: Options = USUAL
) -> Array:
    """The node gives numpy's integers on every target, on computers at every level. Returns the first output."""
    graph = graph_of(node)
    wanted = numpy_outputs(Case(node), graph, values)
    for target, plan in distinct_plans(graph, targets, options):
        for level in range(kernels_c.lib.tw_level() + 1) if target.has("simd") else [0]:
            where = f"{target.name}, level {level}: {node}"
            for got, want in zip(outputs_of(Session(plan, level), values), wanted, strict=True):
                np.testing.assert_array_equal(got, want.reshape(got.shape), err_msg=where)
    first: Array = wanted[0]
    return first


def refused(node: Node, error: type[TwinferError], *parts: str) -> None:
    """The node is refused with a message that names its operator and has all parts."""
    with pytest.raises(error) as caught:
        infer_node(node)
    assert all(part in str(caught.value) for part in (node.op, *parts)), caught.value


def _content(steps: Iterable[Step]) -> Iterator[object]:
    """All that tells one program from another; tensors are numbered in the order of first use."""
    numbers: dict[Tensor, int] = {}

    def told(argument: Argument) -> object:
        if argument is None:
            return None
        part = part_of(argument)
        if isinstance(part.value, Tensor):
            return numbers.setdefault(part.value, len(numbers)), part.offset, part.stride
        array = part.value.array
        return array.dtype.str, array.shape, array.tobytes(), part.offset, part.stride

    for step in steps:
        yield [instruction.count for instruction in step.body if isinstance(instruction, Loop)]
        for call, iteration in unroll(step.body):
            yield (iteration, call.kernel, call.params, call.scratch, call.inplace, *map(told, call.arguments))


_INSTANCE = re.compile(r"^(static [A-Z_ ]*TW_SHARED\(\w+), (\w+)\)$", re.MULTILINE)


def with_common_instances(projects: Sequence[Project]) -> list[Project]:
    """The projects for one program. All call the first one's instance of a kernel that they share.

    Otherwise each has its own instance, and compiling the same function for every case takes most of a test's time.
    """
    first: dict[str, str] = {}

    def once(match: re.Match[str]) -> str:
        definition, symbol = match.groups()
        common = first.setdefault(definition, symbol)
        return match[0] if common == symbol else f"#define {symbol} {common}"

    def of(project: Project) -> Project:
        file = f"{project.name}.c"
        return dataclasses.replace(project, code={**project.code, file: _INSTANCE.sub(once, project.code[file])})

    return [of(project) for project in projects]


def compiled_together(plans: Mapping[str, Plan]) -> dict[str, CompiledSession]:
    """Engines of all plans in one library, compiled in little time: the layers of two in three plans share kernels."""
    policies: list[Policy | None] = [None, share_all, share_all]
    projects = [emit(plan, name, policy=policies[i % 3]) for i, (name, plan) in enumerate(plans.items())]
    path = build_library(with_common_instances(projects), find_compiler(), flags_at("-O1"))
    library = loaded(path)
    return {name: CompiledSession(plan, name, library) for name, plan in plans.items()}


#: Kernels whatever they take of flash.
FASTEST = Options(optimize="speed")


def assert_exact_on(core: str, nodes: Iterable[tuple[Node, Sequence[Array]]], compiled: Optimize = "speed") -> None:
    """Every node, over its values, gives numpy's integers on a core under QEMU, by the fastest kernels, all of them in
    one program, which is compiled for that."""
    card, projects, jobs, wanted = find(core), list[Project](), list[Job](), []
    for i, (node, values) in enumerate(nodes):
        graph = graph_of(node)
        plan = make_plan(graph, card.target, FASTEST).printed(optimize=compiled, mode="interpreted")
        projects.append(emit(plan, f"n{i}"))
        jobs.append(Job(values, i))
        wanted.append(numpy_outputs(Case(node), graph, values))
    results = run_jobs(build(with_common_instances(projects), card), jobs, count=False)
    for project, result, expected in zip(projects, results, wanted, strict=True):
        for got, want in zip(result.outputs, expected, strict=True):
            np.testing.assert_array_equal(got, want.reshape(got.shape), err_msg=str(project.plan.graph.nodes[0]))


class Measurement(NamedTuple):
    """One inference: its outputs, the instructions of ``NAME_run`` and of every layer, how deep it wrote the stack."""

    outputs: tuple[Array, ...]
    instructions: int
    layers: tuple[int, ...]
    stack_bytes: int


def measure(project: Project, card: Card, inputs: Sequence[Array]) -> Measurement:
    """Build and run a model, whole and layer by layer, and count."""
    jobs = [Job(inputs), Job(inputs, by_step=True), Job(inputs, paint=True)]
    whole, steps, painted = run_jobs(build(project, card), jobs)
    return Measurement(whole.outputs, whole.counts[0], steps.counts, painted.stack_bytes)


def write_self_tests(folder: Path, programs: Sequence[tuple[Project, Sequence[Array]]]) -> None:
    """One program of the self-tests of all projects, each with its inputs: its file is called all."""
    files: dict[str, str] = {}
    parts, calls = [], []
    for project, values in programs:
        files |= project_files(project, values)
        ends = ("", "_data", "_layers", "_static", "_check")
        parts += [f'#include "{project.name}{end}.c"' for end in ends]
        parts += [f"#define main {project.name}_main", f'#include "{project.name}_test.c"', "#undef main"]
        calls.append(f"bad |= {project.name}_main();")
    parts.append(f"int main(void) {{ int bad = 0; {' '.join(calls)} return bad; }}\n")
    write_files(folder, {**files, "all.c": "\n".join(parts)})


#: Self-tests that one sanitized program holds: clang took all of a machine's memory for those of every CONV_2D.
TOGETHER = 200


def assert_sanitized(folder: Path, programs: Sequence[tuple[Project, Sequence[Array]]]) -> None:
    """The self-tests of all projects, each with its inputs, pass under ASan and UBSan, in few programs.

    clang's UBSan sees more than gcc's, offsets to null pointers among them, and compiles in half the time.
    """
    compiler = "clang" if shutil.which("clang") else "gcc"
    for first in range(0, len(programs), TOGETHER):
        some, own = programs[first : first + TOGETHER], folder / f"from_{first}" if first else folder
        projects = with_common_instances([project for project, _ in some])
        write_self_tests(own, [(project, values) for project, (_, values) in zip(projects, some, strict=True)])
        run_tool([compiler, *SANITIZE, "all.c", "-o", "all", "-lm"], own)
        done = subprocess.run([own / "all"], capture_output=True, text=True, timeout=1200, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def assert_equal(
    got: Sequence[Any], want: Sequence[Any], tensors: Sequence[Tensor], tolerance: float, who: str
) -> None:
    for g, w, tensor in zip(got, want, tensors, strict=True):
        w = np.asarray(w).reshape(tensor.shape)
        if tensor.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=0, atol=tolerance, err_msg=f"{who}: {tensor}")
        else:
            np.testing.assert_array_equal(g, w, err_msg=f"{who}: {tensor}")
