"""Emitted code under QEMU and in wasmtime: the host's bits on every core, counts that repeat, clear errors."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from cases import (
    Planned,
    by_kernels,
    cases_of,
    graph_of,
    interpreted,
    lowered,
    measure,
    outputs_of,
    planned,
    with_common_instances,
)  # fmt: skip
from needs import deep_but, emulated, need_tools, sampled
from pad_nets import CONVOLUTIONS, KINDS, network

from twinfer.aot.build.firmware import Firmware, build
from twinfer.aot.build.fits import largest_step, live_bytes
from twinfer.aot.build.qemu import Qemu
from twinfer.aot.build.runner import PATIENCE, ByAddress, Job, run_jobs, runner_of
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime import tools
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.choice import Policy, share_all, specialise
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST, Target

MAIN = "cortex-m4"

#: Of so many cases the main core and the Cortex-M55 try one in deep tests, by mode; other cores try fewer.
SAMPLES: dict[Mode, int] = {"compiled": 2, "interpreted": 3}
SAMPLE = 24

#: Built-in models that every core runs.
BUILTIN = ("kws_int8", "vww_int8", "ic_int8", "ad01_int8", "digits_int8", "digits_float32")

#: The bound for newlib's expf, tanhf and the like against glibc's: two units in the last place, as measured on all
#: cases. Absolute for values up to 1, relative beyond.
LIBM = 3e-7

WITH_LIBM = (
    "ATAN2", "COS", "EXP", "GELU", "LOG", "LOGISTIC", "LOG_SOFTMAX", "NON_MAX_SUPPRESSION_V5", "POW", "SIN", "SOFTMAX",
    "TANH", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_RNN",
)  # fmt: skip


BOTH: tuple[Mode, ...] = ("compiled", "interpreted")
MODES = pytest.mark.parametrize("mode", BOTH)
CORES = pytest.mark.parametrize("core", deep_but(emulated(), MAIN, "aarch64"))

#: So many programs have all operators between them.
PARTS = 3

#: What the names of kernels hold that are a core's own.
OWN = {"cortex-m55": ("_mve_",), "riscv64gcv": ("_wide_",), "wasm32": ("_wide_", "_simd128_")}

#: All on the main core, and one each on Cortex-M55, on RISC-V with vectors and in WebAssembly.
PROGRAMS = [*((MAIN, part) for part in range(PARTS)), *((core, 0) for core in OWN)]


@pytest.fixture(autouse=True)
def need_core(request: pytest.FixtureRequest, kept_builds: None) -> None:
    """Those of the test's core."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    card = find(params.get("core", MAIN))
    need_tools(card.compiler, card.emulator)


@dataclasses.dataclass(frozen=True)
class Trial:
    """A model for one core, its inputs and the host's outputs; ``bound`` is the greatest difference of floats."""

    project: Project
    inputs: Sequence[Any]
    want: Sequence[Any]
    bound: float


def trial(case: Planned, op: str, mode: Mode, policy: Policy | None) -> Trial:
    project = emit(case.plan.printed(mode=mode), case.name, policy=policy)
    want = interpreted(case.graph, case.values, HOST, isa.level())
    return Trial(project, case.values, want, LIBM if op in WITH_LIBM else 0)


def trials_of(op: str, card: Card, mode: Mode, policy: Policy | None, every: int) -> Iterator[Trial]:
    for case in planned(op, [card.target], every, f"{op} {card.name} {mode}"):
        yield trial(case, op, mode, policy)


def differing(card: Card, trials: Sequence[Trial]) -> list[str]:
    """The models whose outputs differ from the host's; all are in one program."""
    firmware = build(with_common_instances([t.project for t in trials]), card)
    results = run_jobs(firmware, [Job(t.inputs, i) for i, t in enumerate(trials)], count=False)
    return [
        trial.project.name
        for trial, result in zip(trials, results, strict=True)
        if not all(agree(g, w, trial.bound) for g, w in zip(result.outputs, trial.want, strict=True))
    ]


def agree(got: Any, want: Any, bound: float) -> bool:
    """Whether bits are the same. NaNs may differ in sign and payload, as they do between Arm and x86."""
    if got.dtype.kind != "f":
        return bool(got.tobytes() == want.tobytes())
    if bound:
        return np.allclose(got, want, rtol=bound, atol=bound, equal_nan=True)
    numbers = ~np.isnan(want)
    return bool((np.isnan(got) == ~numbers).all()) and got[numbers].tobytes() == want[numbers].tobytes()


def with_kernels(target: Target, *words: str) -> Iterator[str]:
    """The operators that have kernels with one of these words in their names."""
    for op in operators():
        plans = (lowered(graph_of(case.node), target) for case in cases_of(op).values())
        if any(word in step.call.kernel for plan in plans for step in plan.steps for word in words):
            yield op


def operators_on(core: str) -> list[str]:
    """All on the main core, on others those with kernels of their own."""
    return list(operators() if core == MAIN else with_kernels(find(core).target, *OWN[core]))


def on_other_cores(card: Card) -> Iterator[str]:
    """All operators; on AArch64 with more than NEON those over lanes alone, as all others are plain AArch64's."""
    more = card.target.features & {"neon_dotprod", "neon_i8mm"}
    return with_kernels(card.target, "_wide_", "_i8mm_") if more else iter(operators())


@pytest.mark.parametrize(("core", "part"), PROGRAMS)
def test_operators(core: str, part: int) -> None:
    """A case that calls each kernel, of a part of the operators, specialised. Deep tests take more, in both modes."""
    card, ops = find(core), operators_on(core)[part::PARTS]
    trials = [trial(first, op, "compiled", specialise) for op in ops for first, _ in by_kernels([op], [card.target])]
    assert not differing(card, trials)


@pytest.mark.deep
@MODES
@pytest.mark.parametrize("part", range(4 * PARTS))
@pytest.mark.parametrize("core", [MAIN, *OWN])
def test_many_cases(core: str, part: int, mode: Mode) -> None:
    """One in two or three cases of the same operators."""
    card, policy = find(core), specialise if mode == "compiled" else None
    ops = operators_on(core)[part :: 4 * PARTS]
    assert not differing(card, [t for op in ops for t in trials_of(op, card, mode, policy, SAMPLES[mode])])


@pytest.mark.deep
@pytest.mark.parametrize("core", [name for name in emulated() if name != MAIN])
def test_operators_on_other_cores(core: str) -> None:
    """Some cases of every operator, kernels shared, in one mode: one program per core."""
    card = find(core)
    for mode in sampled(BOTH, len(BOTH), core):
        policy = share_all if mode == "compiled" else None
        trials = [t for op in on_other_cores(card) for t in trials_of(op, card, mode, policy, SAMPLE)]
        assert not differing(card, trials), mode


@pytest.mark.parametrize("core", deep_but(emulated(), MAIN))
def test_padding_that_was_folded(core: str) -> None:
    """Convolutions behind a PAD, which the host's plan keeps."""
    card, trials = find(core), []
    for seed in range(24):
        graph = network(seed, CONVOLUTIONS[seed % 2], KINDS[seed // 2 % 4])
        values = random_inputs(graph)
        want = outputs_of(Session(make_plan(graph, options=Options(preserve_all=True))), values)
        trials.append(Trial(emit(make_plan(graph, card.target), f"n{seed}"), values, want, 0))
    assert not differing(card, trials)


#: How a model is planned, and what runs so by default, on another core each.
WAYS = {
    "layers": Options(memory="layers"), "rows": Options(memory="rows"),
    "input rows": Options(memory="rows", input_rows=True),
}  # fmt: skip
SHOWN = ((MAIN, "input rows", "compiled"), ("cortex-m55", "rows", "compiled"))


@pytest.mark.parametrize(("core", "way", "mode"), deep_but(product(emulated(), WAYS, BOTH), *SHOWN))
def test_models(core: str, way: str, mode: Mode) -> None:
    """The topologies of MLPerf Tiny in int8 and a float model."""
    card, trials, options = find(core), list[Trial](), dataclasses.replace(WAYS[way], mode=mode)
    for name in BUILTIN:
        graph = builtin()[name]()
        values = random_inputs(graph)
        want = interpreted(graph, values, HOST, isa.level())
        bound = LIBM if name.endswith("float32") else 0
        trials.append(Trial(emit(make_plan(graph, card.target, options), name), values, want, bound))
    assert not differing(card, trials)


@pytest.mark.parametrize("core", ["riscv64gcv"])
@pytest.mark.parametrize("bits", [256, 512])
def test_vectors_of_other_lengths(core: str, bits: int) -> None:
    """Code for vectors of 128 bits or more runs on longer ones, with the same bits."""
    card = find(core)
    longer = tuple(word.replace("vlen=128", f"vlen={bits}") for word in card.emulator_flags)
    assert longer != card.emulator_flags
    graphs = [builtin()[name]() for name in ("kws_int8", "digits_int8", "digits_float32")]
    trials = []
    for graph, name in zip(graphs, ("kws", "digits", "floats"), strict=True):
        values = random_inputs(graph)
        want = interpreted(graph, values, HOST, isa.level())
        trials.append(Trial(emit(make_plan(graph, card.target), name), values, want, LIBM if name == "floats" else 0))
    assert not differing(dataclasses.replace(card, emulator_flags=longer), trials)


# -- counting ----------------------------------------------------------------------------------------------------------


def digits(card: Card, kind: str = "int8") -> tuple[Project, list[Any]]:
    graph = builtin()[f"digits_{kind}"]()
    return emit(make_plan(graph, card.target), f"digits_{kind}"), random_inputs(graph)


def counted(firmware: Firmware, inputs: Sequence[Any]) -> ByAddress:
    """How often each instruction of a run is executed."""
    return runner_of(firmware.card).counted_by_address(firmware, inputs, PATIENCE)


def test_plugin_works_here() -> None:
    """The plugin counts a loop of known length to the instruction. The fall-back would hide a broken plugin."""
    card = find(MAIN)
    assert isinstance(runner_of(card), Qemu)
    assert runner_of(card).counter(card) is not None


@pytest.mark.parametrize("core", deep_but(["cortex-m0", "cortex-m4", "cortex-m55"], MAIN))
def test_counts_repeat(core: str) -> None:
    """Counts are the same when repeated, and after other jobs."""
    card = find(core)
    project, inputs = digits(card)
    first = measure(project, card, inputs)
    again = measure(project, card, inputs)
    assert (again.instructions, again.layers) == (first.instructions, first.layers)
    jobs = [Job(inputs, by_step=True), Job(inputs, fresh=False), Job(random_inputs(project.plan.graph, 1)), Job(inputs)]
    steps, *_, whole = run_jobs(build(project, card), jobs)
    assert (whole.counts, steps.counts) == ((first.instructions,), first.layers)
    assert Outputs(steps.outputs) == Outputs(whole.outputs) == first.outputs


class Outputs(tuple[Any, ...]):
    """Arrays that are equal if their bytes are equal."""

    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and [a.tobytes() for a in self] == [b.tobytes() for b in other]


@CORES
def test_layers_add_up(core: str) -> None:
    """NAME_run costs its layers, two or three instructions per call, and its own checks."""
    card = find(core)
    project, inputs = digits(card)
    measured = measure(project, card, inputs)
    assert len(measured.layers) == len(project.layers)
    assert 0 < measured.instructions - sum(measured.layers) < 20 + 3 * len(project.layers)


@pytest.mark.parametrize("core", deep_but([name for name in emulated() if find(name).architecture.bare], MAIN))
def test_clock_instead_of_plugin(core: str, monkeypatch: pytest.MonkeyPatch) -> None:
    card = find(core)
    project, inputs = digits(card)
    exact = measure(project, card, inputs)
    monkeypatch.setattr(Qemu, "counter", lambda self, card: None)
    clocked = measure(project, card, inputs)
    counts = zip((exact.instructions, *exact.layers), (clocked.instructions, *clocked.layers), strict=True)
    assert all(abs(a - b) <= 3 + a // 1_000_000 for a, b in counts)
    assert Outputs(exact.outputs) == clocked.outputs
    with pytest.raises(ToolError, match="counts no instructions here"):
        counted(build(project, card), inputs)


def test_why_nothing_is_counted_is_told_in_the_words_of_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A QEMU without plugins, as another option that it does not know; no compiler for one."""
    card = find(MAIN)
    broken = dataclasses.replace(card, machine="mps2-an386,nonsense=1")
    project, inputs = digits(card)
    firmware = dataclasses.replace(build(project, card), card=broken)
    with pytest.raises(ToolError, match=r"qemu-system-arm counts no instructions here: .*nonsense"):
        counted(firmware, inputs)
    monkeypatch.setenv("CC", "no-such-compiler")
    firmware = dataclasses.replace(firmware, card=dataclasses.replace(card, stack_bytes=0x4010))
    with pytest.raises(ToolError, match="counts no instructions here: no C compiler found"):
        counted(firmware, inputs)


# -- errors ------------------------------------------------------------------------------------------------------------


def broken(old: str, new: str) -> Firmware:
    """A program whose model was changed."""
    card = find(MAIN)
    project, _ = digits(card)
    code = dict(project.code)
    assert old in code["digits_int8.c"]
    code["digits_int8.c"] = code["digits_int8.c"].replace(old, new)
    return build(dataclasses.replace(project, code=code), card)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("__builtin_trap();\n    return TW_OK;", r"fault at 0x[0-9a-f]{8}, called from"),
        ("return 7;", "digits_int8_run on cortex-m4 returned 7"),
        ("for (;;) base[0] = base[1];\n", "timed out after 1"),
    ],
)
def test_programs_that_fail(new: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        run_jobs(broken("return TW_OK;", new), [Job(digits(find(MAIN))[1])], count=False, patience=1)


@pytest.mark.parametrize(
    ("tool", "package"), [("arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib"), ("qemu-system-arm", "qemu-system-arm")]
)
def test_missing_tool(tool: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project, inputs = digits(find(MAIN))
    which = shutil.which
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == tool else which(name))
    with pytest.raises(ToolError, match=f"{tool} is not installed: apt-get install {package}"):
        run_jobs(build(project, find(MAIN)), [Job(inputs)], count=False)


def test_does_not_fit() -> None:
    card = dataclasses.replace(find(MAIN), name="small", ram_bytes=5000, stack_bytes=4096)
    project, _ = digits(card)
    arena, step = project.plan.arena_bytes, max(live_bytes(project.plan, s) for s in project.plan.steps)
    small = "small has 5,000 B of RAM, of them 4,096 B for the stack"
    message = f"needs {arena:,} B of arena, {small}; the largest step is 3, conv_2d: {step:,} B are live, 2,016 B"
    with pytest.raises(ToolError, match=message):
        build(project, card)
    assert project.plan.lower_bound_bytes <= step <= arena
    assert largest_step(make_plan(Graph("none", (), (), (), ()))) == "it has no steps"
