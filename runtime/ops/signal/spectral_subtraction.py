"""SignalFilterBankSpectralSubtraction: each channel less a running estimate of its noise, which is an output, too.

Source: TFLM signal/src/filter_bank_spectral_subtraction.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.signal._custom import arity, custom, first_run, length, state, typed, whole, zeros
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    arity(node, 1, 2)
    size = length(node, node.input(0), "UINT32")
    for output in node.outputs:
        typed(node, output, "UINT32")
    channels = whole(node, "num_channels")
    need(channels == size, node, f"num_channels is {channels}, {node.input(0)} has {size}")
    _params(node)
    return [(size,), (size,)]


def _weights(node: Node, name: str) -> list[int]:
    """A weight for even channels and one for odd ones, as uint32."""
    return [whole(node, prefix + name) % 2**32 for prefix in ("", "alternate_")]


def _params(node: Node) -> dict[str, Any]:
    return {
        "size": node.input(0).size,
        "more": whole(node, "smoothing_bits", 0, 31),
        "bits": whole(node, "spectral_subtraction_bits", 0, 63),
        "clamp": int(whole(node, "clamping") != 0),
        "smooth": _weights(node, "smoothing"),
        "rest": _weights(node, "one_minus_smoothing"),
        "least": whole(node, "min_signal_remaining") % 2**32,
    }


def fresh(node: Node) -> list[Array]:
    return zeros((node.input(0).shape, "uint32"))


def step(node: Node, x: Array, held: list[Array]) -> list[Array]:
    p, (noise,) = _params(node), held
    outputs = np.zeros((2, x.size), np.uint32)
    for i, value in enumerate(x.tolist()):
        signal = (value << p["more"]) % 2**32
        total = signal * p["smooth"][i % 2] + int(noise[i]) * p["rest"][i % 2]
        estimate = (total % 2**64 >> p["bits"]) % 2**32
        below = min(estimate, signal)
        noise[i] = below if p["clamp"] else estimate
        least = (value * p["least"] >> p["bits"]) % 2**32
        outputs[:, i] = max((signal - below) >> p["more"], least), noise[i]
    return list(outputs)


def lower(node: Node, target: Target) -> Call:
    (x,), params = node.inputs, dict[str, Param](_params(node))
    noise = state(node, "noise", "UINT32", node.input(0).shape)
    return Call("tw_spectral_subtraction", params, (x,), (*node.outputs, noise), inplace=(0,))


#: Options of the corpus's model, and of others: fractions that wrap, no bits at all, estimates that are clamped.
OPTIONS: tuple[dict[str, int], ...] = (
    {"smoothing": 409, "one_minus_smoothing": 15975, "min_signal_remaining": 819},
    {"smoothing": 16000, "one_minus_smoothing": 16000, "smoothing_bits": 0, "clamping": True},
    {"smoothing": -5, "one_minus_smoothing": 2**31 - 1, "smoothing_bits": 31, "spectral_subtraction_bits": 30},
    {"smoothing": 1, "one_minus_smoothing": 1, "spectral_subtraction_bits": 0, "clamping": True},
)

DEFAULTS = {
    "alternate_smoothing": 983,
    "alternate_one_minus_smoothing": 15401,
    "min_signal_remaining": 100,
    "smoothing_bits": 10,
    "spectral_subtraction_bits": 14,
    "clamping": False,
}


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for size in (1, 40):
        for given in OPTIONS:
            tensors = [tensor((size,), "UINT32", name=name) for name in ("x", "y", "noise")]
            extra = custom(**(DEFAULTS | given), num_channels=size)
            node = Node("CUSTOM:SignalFilterBankSpectralSubtraction", (tensors[0],), tuple(tensors[1:]), extra=extra)
            yield Case(node)
            yield Case(node, ((rng.integers(0, 2**32, size) >> rng.integers(0, 32, size)).astype(np.uint32),))


OP = Op("CUSTOM:SignalFilterBankSpectralSubtraction", infer, first_run(fresh, step), lower, cases, keeps_state=True)
