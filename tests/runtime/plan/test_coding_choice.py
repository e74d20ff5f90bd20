"""The choice of weights to code and of layers to cut, compared with all other choices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import pytest
from cases import graph_of, numpy_outputs, outputs_of

from twinfer.converter.build import Builder
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor
from twinfer.runtime.op import Case, tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan import weights
from twinfer.runtime.plan.decoders import CALL_BYTES, decoder_bytes
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.program import Loop, Step
from twinfer.runtime.read.packed import pack
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, MVE, Target

#: The share of a layer's bytes by which a coding must be smaller, because it decodes slower than a table of values.
SLOWER = {"plain": 0.0, "lut": 0.0, "huffman": 0.05, "bitmap": 0.025}


@dataclass(frozen=True)
class Way:
    """One way to store a layer's weights: bytes of constants, the decoders called, and the price of slowness."""

    coding: str
    constants: int
    decoders: tuple[str, ...]
    slowness: int


def chain(weights: Sequence[Array]) -> Graph:
    """int8 dense layers, one after the other."""
    b = Builder("chain")
    x = b.input("x", "INT8", (1, weights[0].shape[1]), scale=0.1)
    for i, w in enumerate(weights):
        kernel = b.constant(w, scale=0.01 + i / 1000)
        x = b.op("FULLY_CONNECTED", [x, kernel, None], shape=(1, w.shape[0]), scale=0.2)
    return b.graph([x])


def random_weights(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Weights of few values, some more frequent than others, up to nearly all zero."""
    count = int(rng.choice([2, 5, 9, 16, 20, 40, 100, 200]))
    frequent = rng.dirichlet(np.full(count, rng.choice([0.05, 0.3, 1, 10])))
    values = np.append(0, rng.choice(np.setdiff1d(np.arange(-127, 128), [0]), count - 1, replace=False))
    there = rng.random(shape) < rng.choice([1, 1, 0.2, 0.1])
    return np.where(there, rng.choice(values.astype(np.int8), shape, p=frequent), np.int8(0))


def decoders(step: Step) -> tuple[str, ...]:
    return tuple(call.kernel for call in step.calls if call.kernel != step.call.kernel)


def ways(weights: Array, target: Target) -> Iterator[Way]:
    """All ways for one layer; its weights fit into one slice."""
    graph = chain([weights])
    plain = make_plan(graph, target, Options(weights="plain")).steps[0].call.inputs[1]
    assert isinstance(plain, Constant)
    for how, share in SLOWER.items():
        plan = make_plan(graph, target, Options(weights=how))
        if how == "plain" or decoders(plan.steps[0]):  # a table of values holds no more than 128
            yield Way(how, plan.constant_bytes, decoders(plan.steps[0]), int(share * plain.nbytes))


def cost(chosen: Sequence[Way], *, slowness: bool = True, calls: bool = True) -> int:
    """Bytes of flash: constants, a call of every decoder, and every decoder once."""
    names = [name for way in chosen for name in way.decoders]
    more = sum(way.slowness for way in chosen) * slowness + CALL_BYTES * len(names) * calls
    return sum(way.constants for way in chosen) + decoder_bytes(names) + more


def chosen(weights: Sequence[Array], target: Target) -> tuple[list[Way], list[list[Way]]]:
    """The ways that "auto" takes per layer, and all ways. Checks that no other choice is cheaper."""
    every = [list(ways(w, target)) for w in weights]
    auto = make_plan(chain(weights), target, Options(weights="auto"))
    called = map(decoders, auto.steps)
    cheapest = [next(way for way in own if way.decoders == c) for own, c in zip(every, called, strict=True)]
    assert cost(cheapest) == min(map(cost, product(*every)))
    assert auto.constant_bytes + auto.decoding_bytes == cost(cheapest, slowness=False)
    return cheapest, every


def test_auto_is_the_cheapest_of_all_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """For up to three layers with weights of all kinds. Slowness and calls both change some choice."""
    monkeypatch.setattr(weights, "SLICE_BYTES", 1 << 20)
    rng, codings, decided = np.random.default_rng(5), Counter[str](), Counter[str]()
    for i in range(50):
        sizes = [8 * int(rng.integers(3, 16)) for _ in range(2 + i % 3)]
        cheapest, every = chosen(
            [random_weights(rng, (out, depth)) for depth, out in pairwise(sizes)], (DSP, GENERIC)[i % 2]
        )
        codings.update(way.coding for way in cheapest)
        for what in ("slowness", "calls"):
            blind = min(product(*every), key=lambda each, what=what: cost(each, **{what: False}))
            decided[what] += cost(blind) > cost(cheapest)
    assert set(codings) == set(SLOWER)
    assert min(decided.values()) > 0


def test_a_small_layer_uses_a_decoder_that_is_there_already() -> None:
    """It begins to pay as soon as a single byte is saved."""
    rng = np.random.default_rng(1)
    values = np.array([-9, -2, 0, 5], np.int8)
    codings = [
        chosen([rng.choice(values, (depth, 64)), rng.choice(values, (8, depth))], GENERIC)[0][1].coding
        for depth in range(8, 33)
    ]
    assert codings == sorted(codings, key=["plain", "lut"].index)
    assert set(codings) == {"plain", "lut"}


@pytest.mark.parametrize("target", [GENERIC, DSP, MVE], ids=lambda target: target.name)
@pytest.mark.parametrize(
    ("out", "depth", "batches", "slices"),
    [
        (16, 128, 1, 1),  # as many bytes as a slice may have
        (32, 128, 1, 2),
        (24, 256, 1, 3),
        (64, 1024, 1, 16),  # four channels are 4 KB, and kernels take four at a time
        (32, 128, 2, 1),  # a slice's outputs are not in one piece
    ],
)
def test_what_is_cut(target: Target, out: int, depth: int, batches: int, slices: int) -> None:
    """With one batch, into slices of at most 2 KB or four channels; with the same bits."""
    rng = np.random.default_rng(3)
    w = tensor((out, depth), "INT8", 0.01, data=rng.integers(-4, 4, (out, depth)), name="w")
    x, y = tensor((batches, depth), "INT8", 0.1, name="x"), tensor((batches, out), "INT8", 0.3, name="y")
    node, value = Node("FULLY_CONNECTED", (x, w, None), (y,), {}), rng.integers(-128, 128, x.shape).astype(np.int8)
    plan = make_plan(graph_of(node), target, Options(weights="lut"))
    (step,) = plan.steps
    assert decoders(step)
    assert [i.count for i in step.body if isinstance(i, Loop)] == [slices] * (slices > 1)
    (want,) = numpy_outputs(Case(node), graph_of(node), [value])
    np.testing.assert_array_equal(outputs_of(Session(plan), [value])[0], want)


def test_convolutions_are_not_cut() -> None:
    b = Builder("conv")
    x = b.input("x", "INT8", (1, 3, 3, 64), scale=0.1)
    w = b.constant(np.ones((64, 1, 1, 64), np.int8), scale=0.1)
    graph = b.graph([b.op("CONV_2D", [x, w, None], shape=(1, 3, 3, 64), padding="VALID", stride_w=1, stride_h=1)])
    for target in (GENERIC, DSP, MVE):
        (step,) = make_plan(graph, target, Options(weights="lut")).steps
        assert decoders(step)
        assert not any(isinstance(instruction, Loop) for instruction in step.body)


def test_a_layer_that_cannot_be_cut_is_decoded_whole() -> None:
    """Float activations with int8 weights: the packed weights of 16 channels are interleaved."""
    b = Builder("hybrid")
    x = b.input("x", "FLOAT32", (1, 64))
    w = b.constant(np.tile(np.arange(-4, 4, dtype=np.int8), (64, 8)), scale=0.01)
    graph = b.graph([b.op("FULLY_CONNECTED", [x, w, None], shape=(1, 64))])
    step = make_plan(graph, GENERIC, Options(weights="lut")).steps[0]
    assert w.nbytes > weights.SLICE_BYTES
    assert step.call.kernel == "tw_fully_connected_hybrid"
    assert decoders(step)
    assert not [each for each in step.body if isinstance(each, Loop)]


@pytest.mark.parametrize("target", [GENERIC, DSP, MVE, HOST], ids=lambda target: target.name)
@pytest.mark.parametrize(("type", "bits"), [("INT4", 4), ("INT2", 2)])
def test_weights_of_few_bits_stay_so_on_microcontrollers(type: str, bits: int, target: Target) -> None:
    """Unless options say otherwise; on a computer every weight is a byte."""
    rng = np.random.default_rng(bits)
    x, layers, nodes = tensor((1, 64), "INT8", 0.1, name="x"), list[Tensor](), list[Node]()
    for i in range(2):
        values = rng.integers(-(1 << bits - 1), 1 << bits - 1, (64, 64))
        w = Tensor(f"w{i}", type, (64, 64), Quant.per_tensor(0.02), pack(values, bits))
        layers += [w, replace(x, name=f"y{i}")]
        options = {"fused_activation_function": "NONE", "keep_num_dims": False}
        nodes.append(Node("FULLY_CONNECTED", (nodes[-1].output if nodes else x, w), (layers[-1],), options, index=i))
    graph = Graph("few", (x, *layers), tuple(nodes), (x,), (layers[-1],))
    plan, plain = make_plan(graph, target), make_plan(graph, target, Options(weights="plain"))
    of_weights = 64 * 64 * (bits if target is not HOST else 8) // 8
    assert 2 * of_weights <= plan.constant_bytes <= 2 * (of_weights + 1024)
    assert plain.constant_bytes >= 2 * 64 * 64
    names = [kernel for step in plan.steps for kernel in decoders(step)]
    assert bool(names) == (target is not HOST)
    assert plan.decoding_bytes == decoder_bytes(names) + CALL_BYTES * len(names)
    values = random_inputs(graph, 3)
    assert outputs_of(Session(plan), values)[0].tobytes() == outputs_of(Session(plain), values)[0].tobytes()
