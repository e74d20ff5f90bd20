"""BIDIRECTIONAL_SEQUENCE_LSTM: one LSTM forwards, one backwards in time; float values, float or int8 weights.

Source: LiteRT bidirectional_sequence_lstm.cc. Its fault is not copied: batch by batch with ``merge_outputs``, it takes
the states of the second sequence and later ones from beyond their places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.recurrent import _lstm, _lstm_float
from twinfer.runtime.ops.recurrent._lstm import Lstm, Places
from twinfer.runtime.ops.recurrent._lstm_cases import TOLERANCE
from twinfer.runtime.ops.recurrent._rnn_cases import weights
from twinfer.runtime.ops.recurrent._sequences import Layout
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: The position of the second input.
OTHER = 39

_UNLIKE = "LiteRT takes no LSTMs of different widths"
_FAULT = "LiteRT takes states by the width of the merged outputs, beyond their places"


def directions(node: Node) -> tuple[Lstm, Lstm]:
    """The LSTM that runs forwards and the one that runs backwards.

    A second input that has no weights of its own is what the second LSTM runs over.
    """
    layout = Layout.of(node, time_major=bool(node.options.get("time_major", True)))
    stacked = node.optional(OTHER) is not None and node.optional(OTHER + 2) is None
    forward = Places(start=1, hidden=35, other=OTHER, of_other=OTHER + 1)
    backward = Places(start=18, hidden=37, x=OTHER if stacked else 0, other=OTHER, of_other=OTHER + 5)
    return Lstm(node, forward, layout), Lstm(node, backward, layout)


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 48, node, f"it has {len(node.inputs)} inputs, not 48")
    need_type(node, node.input(0), "FLOAT32")
    both = directions(node)
    for lstm in both:
        _lstm.check(lstm)
    forward, backward = both
    need(forward.kind == backward.kind, node, "the weights of both directions must have the same type")
    alike = (forward.other is None) == (backward.other is None)
    need(alike, node, "one direction has weights for the second input, and the other has none")
    if _merged(node):
        return [forward.layout.shape(forward.outputs + backward.outputs)]
    return [lstm.layout.shape(lstm.outputs) for lstm in both]


def _merged(node: Node) -> bool:
    return bool(node.options.get("merge_outputs", False))


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The outputs, from the states in ``inputs``."""
    forward, backward = directions(node)
    both = [_lstm_float.reference(forward, inputs), _lstm_float.reference(backward, inputs, backwards=True)]
    return [np.concatenate(both, axis=-1)] if _merged(node) else both


def lower(node: Node, target: Target) -> Call:
    forward, backward = directions(node)
    width = forward.outputs + backward.outputs if _merged(node) else 0
    places = (
        forward.layout.place(width or forward.outputs),
        backward.layout.place(width or backward.outputs, forward.outputs if width else 0, backwards=True),
    )
    params: dict[str, Param] = {
        "forward": _lstm_float.params(forward, places[0]),
        "backward": _lstm_float.params(backward, places[1], backwards=True),
    }
    outputs: list[Tensor] = []
    for lstm, y in zip((forward, backward), (node.outputs[0], node.outputs[-1]), strict=True):
        outputs += [y, node.input(lstm.hidden), node.input(lstm.cell)]
    inputs = (*_lstm_float.inputs_of(forward), *_lstm_float.inputs_of(backward))
    scratch, macs = max(_lstm_float.scratch(forward), _lstm_float.scratch(backward)), forward.macs + backward.macs
    if forward.kind == "float":
        return Call("tw_bidirectional_lstm_f32", params, inputs, tuple(outputs), scratch, macs=macs)
    params |= {"forward_scales": _lstm_float.scales(forward), "backward_scales": _lstm_float.scales(backward)}
    return Call("tw_bidirectional_lstm_hybrid", params, inputs, tuple(outputs), scratch, macs=macs)


class _Form(NamedTuple):
    """``extra``: values of the second input, 0 for none; ``linked``: it has weights. ``flags``: as of LSTMs.
    ``units``: of both directions; ``outputs``: of their projections, 0 for none."""

    kind: str
    sizes: tuple[int, int, int] = (1, 4, 5)
    units: tuple[int, int] = (6, 6)
    outputs: tuple[int, int] = (0, 0)
    extra: int = 0
    linked: bool = False
    flags: str = ""


def _case(rng: np.random.Generator, form: _Form, **options: Any) -> Case:
    settings = {"fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0, "merge_outputs": False,
                "time_major": True, **options}  # fmt: skip
    batches, steps, size = form.sizes
    layout = Layout(batches, steps, settings["time_major"])
    inputs: list[Tensor | None] = [None] * 48
    inputs[0] = tensor(layout.shape(size), name="x")
    if form.extra:
        inputs[OTHER] = tensor(layout.shape(form.extra), name="other")
    shell = Node("BIDIRECTIONAL_SEQUENCE_LSTM", tuple(inputs), (), settings)
    widths = [outputs or units for units, outputs in zip(form.units, form.outputs, strict=True)]
    for lstm, units, outputs in zip(directions(shell), form.units, widths, strict=True):
        _fill(rng, form, lstm, inputs, (size, units, outputs))
        inputs[lstm.hidden] = replace(tensor((batches, outputs), name="h"), variable=True)
        inputs[lstm.cell] = replace(tensor((batches, units), name="c"), variable=True)
    merged = settings["merge_outputs"]
    ys = [tensor(layout.shape(n), name=f"y{i}") for i, n in enumerate([sum(widths)] if merged else widths)]
    node = replace(shell, inputs=tuple(inputs), outputs=tuple(ys))
    why = _UNLIKE if form.units[0] != form.units[1] else ""
    why = _FAULT if merged and batches > 1 and not layout.time_major else why
    return Case(node, oracle="none" if why else "litert", why=why, tolerance=TOLERANCE[form.kind])


def _fill(rng: np.random.Generator, form: _Form, lstm: Lstm, inputs: list[Any], sizes: tuple[int, int, int]) -> None:
    """The weights and biases of one direction; ``sizes``: of its input, units, outputs."""
    size, units, outputs = sizes
    for i, gate in enumerate(lstm.gates):
        if i == 1 and "coupled" in form.flags:
            continue
        inputs[gate.weights] = weights(rng, form.kind, (units, size))
        inputs[gate.recurrent] = weights(rng, form.kind, (units, outputs))
        inputs[gate.bias] = tensor((units,), data=rng.standard_normal(units), name="b")
        if "peephole" in form.flags and gate.peephole is not None:
            inputs[gate.peephole] = weights(rng, form.kind, (units,))
        if form.linked and gate.other is not None:
            inputs[gate.other] = weights(rng, form.kind, (units, form.extra))
    if outputs != units:
        inputs[lstm.projection] = weights(rng, form.kind, (outputs, units))
        inputs[lstm.projection_bias] = tensor((outputs,), data=rng.standard_normal(outputs), name="b")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for kind in ("FLOAT32", "HYBRID"):
        yield _case(rng, _Form(kind))
        yield _case(rng, _Form(kind, (3, 4, 5)), merge_outputs=True, cell_clip=0.5)
        yield _case(rng, _Form(kind, (2, 3, 5), outputs=(4, 4)), time_major=False, proj_clip=0.25)
        yield _case(rng, _Form(kind, (1, 4, 5), flags="coupled"), time_major=False, merge_outputs=True)
        linked = _Form(kind, (2, 4, 5), flags="peephole", extra=5, linked=True)
        yield _case(rng, linked, asymmetric_quantize_inputs=True)
        yield _case(rng, _Form(kind, (2, 4, 5), extra=5))
        yield _case(rng, _Form(kind, (2, 3, 5)), time_major=False, merge_outputs=True)
        yield _case(rng, _Form(kind, (2, 3, 5), (7, 3), (2, 4)), merge_outputs=True)


OP = Op("BIDIRECTIONAL_SEQUENCE_LSTM", infer, reference, lower, cases)
