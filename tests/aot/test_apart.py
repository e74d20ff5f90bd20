"""Constants that are no part of the program: in a block that the caller gives, or fetched page by page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import cases_of, graph_of
from flows import Sub
from needs import deep_but, need_tools

from twinfer.aot.build.firmware import build
from twinfer.aot.build.host import compile_plans
from twinfer.aot.build.project import write_project
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.build.update import weights_for
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import assemble, builtin, quantize, ranges, samples, seeded
from twinfer.command_line.main import main
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Apart, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.pages import fetches_of
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.replay import fault
from twinfer.runtime.program import Call, Chain, Fetch, Instruction, Loop, Part, Slice, Step, Wait
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, MVE
from twinfer.runtime.write.tflite import write

WAYS = pytest.mark.parametrize("way", ["blob", "paged"])


def how(way: Apart, **more: Any) -> Options:
    return Options(weights_as=way, page_bytes=700, **more)


def retrained(name: str, seed: str) -> Graph:
    """A built-in int8 model with other weights, and so with other scales and zero points."""
    graph = assemble(name, seeded(seed))
    return quantize(graph, ranges(graph, samples(name)), (-0.9, 0.8))


def counting() -> Graph:
    """A loop whose body multiplies by a constant, behind a layer and in front of a branch."""
    rng = np.random.default_rng(5)
    main, body, test, then, orelse = (Sub(name) for name in ("main", "body", "test", "then", "orelse"))
    x = body.input((4,))
    n = body.input((1,))
    state = [body.mul(x, rng.standard_normal(4).astype(np.float32)), body.add(n, np.ones(1, np.float32))]
    tested = [test.input((4,)), test.input((1,))]
    a, b = then.input((4,)), orelse.input((4,))
    first, count = main.input((4,)), main.input((1,))
    y = main.add(first, rng.standard_normal(4).astype(np.float32))
    outs = [main.tensor((4,)), main.tensor((1,))]
    main.run("WHILE", [y, count], outs, cond_subgraph_index=2, body_subgraph_index=1)
    last = main.tensor((4,))
    main.run(
        "IF", [main.less(count, np.zeros(1, np.float32)), outs[0]], [last], then_subgraph_index=3, else_subgraph_index=4
    )
    inner = (
        body.graph(state),
        test.graph([test.less(tested[1], np.full(1, 3, np.float32))]),
        then.graph([then.add(a, rng.standard_normal(4).astype(np.float32))]),
        orelse.graph([orelse.mul(b, rng.standard_normal(4).astype(np.float32))]),
    )
    return replace(main.graph([last]), subgraphs=inner)


def graphs() -> dict[str, Graph]:
    """Models of every kind: convolutions, dense layers in slices, floats, state, control flow, other operators."""
    ops = {"FULLY_CONNECTED": 11, "CONV_2D": 11, "ADD": 15, "SOFTMAX": 15, "QUANTIZE": 15, "SVDF": 7, "GATHER": 15}
    cases = {name: graph_of(case.node) for op, every in ops.items() for name, case in [*cases_of(op).items()][::every]}
    named = {name.replace("-", "_"): graph for name, graph in cases.items()}
    models = {name: builtin()[name]() for name in ("kws_int8", "ad01_int8", "digits_float32")}
    return {**models, "counting": counting(), **named}


def run(session: Session, inputs: list[Array]) -> list[Array]:
    poison(session)
    session.feed(inputs)
    session.run()
    return session.outputs()


def same(got: list[Array], want: list[Array]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(got, want, strict=True))


@WAYS
def test_the_bits_of_linked_constants(way: Apart) -> None:
    """Interpreted, and in emitted code: kernels of every target, in which all that is fetched comes with the wait."""
    targets = (GENERIC, DSP, MVE, HOST)
    plans = {
        f"{name}_{target.name}": make_plan(graph, target, how(way))
        for i, (name, graph) in enumerate(graphs().items())
        for target in (targets if name == "kws_int8" else [targets[i % 4]])
    }
    engines = compile_plans(plans, flags=("-O1", "-ffp-contract=off", "-shared", "-fPIC"))
    for name, plan in plans.items():
        inputs = random_inputs(plan.graph, 1)
        want = run(Session(make_plan(plan.graph, plan.target)), inputs)
        assert same(run(Session(plan), inputs), want), name
        if not name.startswith("softmax"):  # whose last bits are those of the C library
            assert same(run(engines[name], inputs), want), name


@WAYS
@pytest.mark.parametrize("core", deep_but(["cortex-m4", "cortex-m55", "cortex-m0plus"], "cortex-m4"))
def test_the_bits_on_a_microcontroller(way: Apart, core: str) -> None:
    card = find(core)
    need_tools("qemu-system-arm", "arm-none-eabi-gcc")
    names = ("digits_int8", "ad01_int8") if core == "cortex-m4" else ("kws_int8", "vww_int8", "ic_int8", "ad01_int8")
    plans = {name: make_plan(builtin()[name](), card.target, how(way)) for name in names}
    inputs = [random_inputs(plan.graph, 2) for plan in plans.values()]
    results = run_jobs(
        build([emit(plan, name) for name, plan in plans.items()], card),
        [Job(given, model) for model, given in enumerate(inputs)],
        count=False,
    )
    for plan, given, result in zip(plans.values(), inputs, results, strict=True):
        assert same(list(result.outputs), run(Session(plan), given))


# -- new weights for code that stays -----------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("target", [GENERIC, DSP, MVE])
def test_code_does_not_depend_on_training(way: Apart, target: Any) -> None:
    """Not a byte of it, though weights, scales and zero points differ: it is the blob that does."""
    old, new = (emit(make_plan(retrained("kws", seed), target, how(way)), "kws") for seed in ("one", "two"))
    assert old.weights != new.weights
    assert len(old.weights) == len(new.weights)
    assert old.code == new.code
    assert old.structure == new.structure


def compiled(folder: Path, graph: Graph, *more: str) -> Path:
    """The folder of a model, by the command line."""
    path = folder / "old.tflite"
    path.write_bytes(write(graph))
    assert main(["compile", str(path), "-o", str(folder / "c"), "--weights-as", "blob", *more]) == 0
    return folder / "c"


def test_weights_over_the_air(tmp_path: Path, capsys: Any) -> None:
    """The old code gives the new model's results over the file that the command writes; its check takes it."""
    folder = compiled(tmp_path, retrained("digits", "one"), "--name", "net", "--target", "generic")
    new = retrained("digits", "two")
    (tmp_path / "new.tflite").write_bytes(write(new))
    assert main(["weights", str(tmp_path / "new.tflite"), "--like", str(folder), "-o", str(tmp_path / "new.bin")]) == 0
    assert "bytes for the code in" in capsys.readouterr().out
    inputs = random_inputs(new, 3)
    (want,) = run(Session(make_plan(new, GENERIC)), inputs)
    (folder / "main.c").write_text(f"""
#include <stdio.h>
#include "net.h"
static _Alignas(16) unsigned char arena[NET_ARENA_BYTES], weights[NET_WEIGHTS_BYTES];
int main(void) {{
    static const signed char input[] = {{{", ".join(map(str, inputs[0].reshape(-1)))}}};
    signed char out[NET_OUTPUT_0_BYTES];
    const void *const inputs[] = {{input}};
    void *const outputs[] = {{out}};
    FILE *file = fopen("{tmp_path}/new.bin", "rb");
    if (fread(weights, 1, sizeof weights, file) != sizeof weights) return 9;
    printf("%d", net_check(weights));
    weights[NET_WEIGHTS_BYTES / 2] ^= 4;
    printf(" %d", net_check(weights));
    weights[NET_WEIGHTS_BYTES / 2] ^= 4;
    weights[4] ^= 1;
    printf(" %d %d", net_check(weights), net_check(NULL));
    weights[4] ^= 1;
    printf(" %d", net_run(arena, weights, inputs, outputs));
    for (int i = 0; i < NET_OUTPUT_0_BYTES; ++i) printf(" %d", out[i]);
    printf(" %.9g", (double)net_dequantize_output_0(weights, 1));
}}
""")
    sources = ["main.c", "net.c", "net_check.c"]
    flags = ["-O1", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
    subprocess.run(["cc", *flags, *sources, "-lm", "-o", "a.out"], cwd=folder, check=True)
    said = subprocess.run([str(folder / "a.out")], capture_output=True, text=True, check=True).stdout.split()
    assert said[:5] == ["0", "8", "7", "7", "0"]
    assert [int(each) for each in said[5:-1]] == want.reshape(-1).tolist()
    (out,) = new.outputs
    assert float(said[-1]) == np.float32(1 - out.zero) * np.float32(out.scale)


def test_weights_of_another_structure_are_refused(tmp_path: Path) -> None:
    """In words that name the layer and what the code has there."""
    folder = compiled(tmp_path, builtin()["digits_int8"](), "--name", "net", "--target", "generic")
    with pytest.raises(InvalidArgumentError, match=r"kws.* does not fit the code in .*/c: "):
        weights_for(builtin()["kws_int8"](), folder)
    graph = builtin()["digits_int8"]()
    nodes = [
        replace(node, options={**node.options, "fused_activation_function": "RELU_N1_TO_1"}) if i == 0 else node
        for i, node in enumerate(graph.nodes)
    ]
    with pytest.raises(InvalidArgumentError, match=r"layer 0, CONV_2D, operator 0 differs: the code has \.high = 127"):
        weights_for(replace(graph, nodes=tuple(nodes)), folder)
    with pytest.raises(InvalidArgumentError, match="has no model 'other', only net"):
        weights_for(graph, folder, "other")
    described = json.loads((folder / "twinfer.json").read_text())
    del described["plan"]
    (folder / "twinfer.json").write_text(json.dumps(described))
    with pytest.raises(InvalidArgumentError, match="no folder of a program whose weights can be replaced"):
        weights_for(graph, folder)


@pytest.mark.parametrize("way", ["linked", "blob", "paged"])
def test_the_folder_tests_itself(way: Apart, tmp_path: Path) -> None:
    """And compiles without a warning, as C++, too; it says how many bytes a run fetches, and fetches as many."""
    plan = make_plan(builtin()["digits_int8"](), GENERIC, how(way))
    write_project(plan, "net", tmp_path / "c")
    flags = "CFLAGS=-O1 -Wall -Wextra -Wconversion -pedantic -Werror"
    made = subprocess.run(["make", "-s", "-C", tmp_path / "c", "test", flags], capture_output=True, text=True)
    assert made.stdout == "net: ok\n", made.stderr
    if compiler := shutil.which("g++"):
        for file in ("net.c", "net_check.c"):
            subprocess.run([compiler, "-std=c++20", "-x", "c++", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion",
                            "-pedantic", "-Werror", file], cwd=tmp_path / "c", check=True)  # fmt: skip


# -- pages -------------------------------------------------------------------------------------------------------------


def dense() -> Plan:
    """Dense layers, most of them in slices."""
    return make_plan(builtin()["ad01_int8"](), GENERIC, how("paged"))


def test_pages_are_small_where_a_layer_can_be_cut() -> None:
    """Every fetch but that of the fewest channels is within a page; all constants are fetched once a run."""
    plan = dense()
    sizes = [fetch.nbytes for fetch in fetches_of(plan.program)]
    assert max(sizes) <= 4 * 640 + 64  # four channels of the first layer
    assert sum(sizes) == plan.constant_bytes
    assert plan.arena_bytes < 10_000 < make_plan(plan.graph, GENERIC).constant_bytes


def test_a_page_comes_while_another_layer_computes() -> None:
    """Only the first is waited for at once."""
    bodies = [step.body for step in dense().steps if any(isinstance(each, Fetch) for each in step.calls)]
    assert [isinstance(body[0], Fetch) for body in bodies] == [True] + [False] * (len(bodies) - 1)


def parts(plan: Plan) -> Iterator[tuple[int, Step]]:
    """The paged steps by place in the program."""
    for i, part in enumerate(plan.program):
        if isinstance(part, Step) and any(isinstance(each, Wait) for each in part.body):
            yield i, part


def damaged(plan: Plan, i: int, body: list[Instruction]) -> Plan:
    program: list[Part] = list(plan.program)
    step = program[i]
    assert isinstance(step, Step)
    program[i] = replace(step, body=tuple(body))
    return replace(plan, program=tuple(program))


def with_source(loop: Instruction, at: int) -> Instruction:
    """A loop that fetches from another byte on."""
    assert isinstance(loop, Loop)
    wait, fetch, call = loop.body
    assert isinstance(fetch, Fetch)
    (source,) = fetch.inputs
    assert isinstance(source, Slice)
    return replace(loop, body=(wait, replace(fetch, inputs=(source._replace(offset=at),)), call))


def test_the_proof_refuses_pages_that_are_not_complete() -> None:
    plan = dense()
    assert fault(plan) is None
    (i, first), (_, second) = [*parts(plan)][:2]
    fetch, loop, wait, more, last = first.body
    assert isinstance(fetch, Fetch)
    assert isinstance(last, Call)
    again = with_source(loop, 0)
    for body, words in (
        ([fetch, loop, more, last], "fetches before it has waited"),
        ([fetch, loop, wait, last, more], ""),
        ([fetch, fetch, loop, wait, more, last], "fetches before it has waited"),
        ([loop, wait, more, last], "which is not there"),
        ([fetch, wait, more, last], "which is not there"),
        ([fetch, again, wait, more, last], "another order"),
        ([fetch, loop, wait, last], "which is not there"),
    ):
        said = fault(damaged(plan, i, list(body)))
        assert (words in said) if words and said else (not words and said is None), (words, said)
    (to,) = fetch.outputs
    assert isinstance(to, Slice)
    wrong = replace(fetch, outputs=(to._replace(offset=1 << 20),))
    said = fault(damaged(plan, i, [wrong, *first.body[1:]]))
    assert said
    assert "fetches bytes" in said
    page = second.call.inputs[1]
    assert isinstance(page, Slice)
    places = {**plan.places, page.value: plan.places[last.written[0]]}
    assert fault(replace(plan, places=places))  # the next page comes where the layer writes


def test_chains_have_pages_too() -> None:
    """One for all layers of a chain; layer by layer needs more memory."""
    graph = builtin()["kws_int8"]()
    rows, layers = (make_plan(graph, GENERIC, how("paged", memory=memory)) for memory in ("auto", "layers"))
    chains = [part for part in rows.program if isinstance(part, Chain)]
    assert any(isinstance(each, Fetch) for chain in chains for each in chain.before)
    assert rows.arena_bytes < layers.arena_bytes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights_as": "tape"}, "weights cannot be 'tape', only linked, blob, paged"),
        ({"weights_as": "paged", "page_bytes": 0}, "a page has a number of bytes above 0"),
        ({"weights_as": "blob", "input_rows": True}, "do not go with an input by rows"),
        ({"weights_as": "paged", "guard": True}, "nothing can preserve or guard them"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Options(**options)
