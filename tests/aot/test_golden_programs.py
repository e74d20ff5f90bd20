"""What is planned and emitted for the corpus and for every operator, kept as check sums: no change goes unseen.

golden_programs/models.txt has the bytes of RAM of each plan beside the sum of its C. operators.txt has a sum for all
cases of each operator, each for one of three targets in turn; damaged.txt has one for what is said of each model's file
with wrong numbers in it, refused.txt one for what is said of each operator's cases with a few things changed; pairs.txt
and chains.txt are of several operators behind each other. None says that a program is right, which other tests do.
``pytest --refresh-golden tests/aot/test_golden_programs.py`` writes the files anew; the difference shows which models
and operators a change touches, and whether their memory grows.
"""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from cases import cases_of, graph_of
from chains import chain
from changes import changes, one_of_types, smaller
from damage import damaged, victims
from golden_files import compare
from needs import SHARED
from pairs import pairs
from sweep.tasks import corpus

from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit, version
from twinfer.bench.models.source import load
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.registry import operators
from twinfer.runtime.target import GENERIC, HOST, Target

GOLDEN = Path(__file__).parent / "golden_programs"

TARGETS = {name: find(name).target for name in ("cortex-m0", "cortex-m4", "cortex-m55")}
TARGETS |= {"generic": GENERIC, "host": HOST}

#: What each model is planned and printed for.
WAYS = (
    ("cortex-m4", Options()),
    ("cortex-m4", Options(memory="rows", optimize="size")),
    ("cortex-m4", Options(weights="auto", mode="interpreted")),
    ("cortex-m55", Options(memory="layers", optimize="speed")),
    ("cortex-m55", Options(memory="rows", mode="interpreted")),
    ("cortex-m0", Options(weights="huffman", decode="start", optimize="size")),
    ("generic", Options(memory="rows")),
    ("generic", Options(guard=True)),
)


def _program(graph: Graph, target: Target, options: Options) -> tuple[str, str]:
    """The plan's bytes, arena + state / lower bound of the arena, and its C; or "refused" and the reason."""
    try:
        plan = make_plan(graph, target, options)
        code = "".join(text for _, text in sorted(emit(plan, "model").code.items())).replace(version(), "VERSION")
    except TwinferError as error:
        return "refused", str(error)
    return f"{plan.arena_bytes}+{plan.state_bytes}/{plan.lower_bound_bytes}", code


def _models() -> Iterator[str]:
    """Small models, each in three of the ways."""
    for model in (model for model in corpus() if model.within(most_bytes=1 << 18, most_macs=4_000_000)):
        name = Path(model.name).stem
        try:
            graph = load(model.name).graph
        except TwinferError as error:
            yield f"{name}: {str(error).replace(str(SHARED), 'SHARED')}"
            continue
        ways = [WAYS[(zlib.crc32(name.encode()) + more) % len(WAYS)] for more in (0, 2, 5)]
        told = [_program(graph, TARGETS[target], options) for target, options in ways]
        yield f"{name}: " + " ".join(f"{ram}:{zlib.crc32(text.encode()):08x}" for ram, text in told)


def _operators() -> Iterator[str]:
    for op in sorted(operators()):
        targets = cycle(TARGETS[name] for name in ("cortex-m4", "cortex-m55", "host"))
        graphs = [graph_of(case.node) for case in cases_of(op).values()]
        told = "\n".join(" ".join(_program(*job, Options())) for job in zip(graphs, targets, strict=False))
        yield f"{op}: {len(graphs)} {zlib.crc32(told.encode()):08x}"


def _damaged() -> Iterator[str]:
    """Outcomes of small models whose files have a few numbers changed: what refuses them, in words, or the plan."""
    for model in (model for model in corpus() if model.within(most_bytes=6000, most_macs=100_000)):
        file, told = np.frombuffer(Path(model.name).read_bytes(), np.uint8), []
        rng = np.random.default_rng(zlib.crc32(Path(model.name).stem.encode()))
        for _ in range(12):
            wrong = file.copy()
            for at in 4 * rng.integers(2, len(file) // 4, 2):
                number = wrong[at : at + 4].view("<i4")
                number[:] = rng.choice([0, -1, 1, 2**31 - 1, -(2**31), int(rng.integers(1 << 16)), int(number[0]) ^ 1])
            try:
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    graph = read(wrong.tobytes())
                told += [*(str(each.message) for each in said), *_program(graph, GENERIC, Options())]
            except TwinferError as error:
                told.append(str(error))
        yield f"{Path(model.name).stem}: {zlib.crc32(''.join(told).encode()):08x}"


def _refused() -> Iterator[str]:
    """Outcomes of operators whose options, shapes, types, numbers, connections are not those of a case."""
    for op in sorted(operators()):
        rng, told, planned = np.random.default_rng(3), [], 0
        near = [
            other.node for case in one_of_types(smaller(cases_of(op).values(), 2000)) for other in changes(case, rng)
        ]
        graphs = [graph_of(node) for node in near[:: 1 + len(near) // 60]]
        draws = random.Random(op)
        graphs += [damaged(draws.choice(victims(op)), draws) for _ in range(10)]
        for graph in graphs:
            ram, text = _program(graph, GENERIC, Options())
            planned += ram != "refused"
            told.append(ram + text)
        yield f"{op}: {planned} of {len(graphs)} {zlib.crc32(''.join(told).encode()):08x}"


def _pairs() -> Iterator[str]:
    """Pairs of operators, each planned and printed in one of the ways."""
    for op in sorted(operators()):
        told = []
        for i, graph in enumerate(pairs(op, 8), len(op)):
            target, options = WAYS[i % len(WAYS)]
            told += [*_program(graph, TARGETS[target], options)]
        planned = [ram for ram in told[::2] if ram != "refused"]
        yield f"{op}: {len(planned)} of {len(told[::2])} {zlib.crc32(' '.join(told).encode()):08x}"


def _chains() -> Iterator[str]:
    for first in range(0, 240, 10):
        ways = [(chain(seed), *WAYS[seed % len(WAYS)]) for seed in range(first, first + 10)]
        told = [part for graph, target, options in ways for part in _program(graph, TARGETS[target], options)]
        yield f"{first}: {zlib.crc32(' '.join(told).encode()):08x}"


def test_programs_of_chains_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "chains.txt", _chains(), request)


def test_programs_of_pairs_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "pairs.txt", _pairs(), request)


@pytest.mark.usefixtures("corpus")
def test_programs_of_models_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "models.txt", _models(), request)


@pytest.mark.usefixtures("corpus")
def test_damaged_files_are_told_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "damaged.txt", _damaged(), request)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_refusals_of_operators_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "refused.txt", _refused(), request)


def test_programs_of_operators_are_as_kept(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN / "operators.txt", _operators(), request)
