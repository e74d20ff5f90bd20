"""LSTMs of int8 or int16 with four gates and nothing else: TFLM's arithmetic, one table of the logistic function."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from twinfer.runtime.constant import Constant, table
from twinfer.runtime.fixed_point import quantize_multiplier, reduced_multiplier, requantize, requantize_wide, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import need, unsupported
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.functions import _sigmoid
from twinfer.runtime.ops.recurrent._lstm import Lstm
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call

#: Positions of inputs: weights, recurrent weights and bias per gate (forget, input, cell, output).
GATES = ((2, 6, 13), (1, 5, 12), (3, 7, 14), (4, 8, 15))
HIDDEN, CELL = 18, 19

#: Scales of sums (12 fractional bits) and of gates' outputs (15).
_SUM, _GATE = 2.0**-12, 2.0**-15

#: The greatest shift of sums of 64 bits.
_MOST_SHIFT = 7


def _wide(node: Node) -> bool:
    """Whether values are int16; sums then have 64 bits."""
    return node.input(0).type == "INT16"


def is_plain(lstm: Lstm) -> bool:
    """Whether TFLM takes an integer LSTM."""
    return not (lstm.coupled or lstm.peephole or lstm.projected or lstm.norm)


def check(node: Node) -> None:
    """ModelError or UnsupportedOperatorError unless quantisation and activation are what TFLM's kernel takes."""
    x, hidden, cell, y = node.input(0), node.input(HIDDEN), node.input(CELL), node.output
    if node.options.get("fused_activation_function", "TANH") != "TANH":
        raise unsupported(node, "the activation of an integer LSTM must be TANH")
    weights = [node.input(i) for w, r, _ in GATES for i in (w, r)]
    need_quant(node, x, hidden, cell, y, *weights)
    need(not any(w.zero for w in weights) and cell.zero == 0, node, "weights and cell must have zero points of 0")
    need((hidden.scale, hidden.zero) == (y.scale, y.zero), node, f"{hidden} and {y} must be quantised alike")
    if _wide(node) and (x.zero or y.zero):
        raise unsupported(node, f"{x} and {y} must have zero points of 0, as int16 is quantised")
    if _wide(node) and max(shift for pair in _multipliers(node) for _, shift in pair) > _MOST_SHIFT:
        raise unsupported(node, f"the scales of {x}, {hidden} or their weights are too large")
    if math.frexp(cell.scale)[0] != 0.5 or not _SUM <= cell.scale <= 2.0**-4:
        raise unsupported(node, f"{cell} must have a power of 2 from 2**-12 to 2**-4 as its scale")


def _clip(node: Node) -> int:
    clip = float(node.options.get("cell_clip", 0.0))
    return int(min(clip / node.input(CELL).scale, 32767.0))


def _clamp16(x: Array) -> Array:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def _products(node: Node) -> dict[str, tuple[int, int]]:
    """Multipliers of the three products. Source: TFLM lstm_eval_common.cc, PrepareGateParametersInteger."""
    cell, hidden = node.input(CELL).scale, node.input(HIDDEN).scale
    reals = {"keep": _GATE * cell / cell, "add": _GATE * _GATE / cell, "give": _GATE * _GATE / hidden}
    return {name: quantize_multiplier(real) for name, real in reals.items()}


def _left(node: Node) -> int:
    """How far to shift cells left so that they have the 12 fractional bits that tanh takes."""
    return 12 + math.frexp(node.input(CELL).scale)[1] - 1


def _scaled(node: Node, sums: Array, scale: tuple[int, int]) -> Array:
    """Sums as int16 with 12 fractional bits."""
    return _clamp16(requantize_wide(sums, *scale) if _wide(node) else requantize(wrap32(sums), *scale))


def _step(node: Node, x: Array, hidden: Array, cell: Array, inputs: list[Any]) -> tuple[Array, Array]:
    """Hidden state and cell after one step of all batches. Source: TFLM lstm_eval.h, LstmStep."""
    gates = []
    for (w, r, b), (of_x, of_h) in zip(GATES, _multipliers(node), strict=True):
        sums = (x - node.input(0).zero) @ inputs[w].astype(np.int64).T + inputs[b]
        more = (hidden - node.input(HIDDEN).zero) @ inputs[r].astype(np.int64).T
        gates.append(_clamp16(_scaled(node, sums, of_x) + _scaled(node, more, of_h)))
    forget, take, give = (_sigmoid.logistic(3 * gates[i]) for i in (0, 1, 3))
    by = _products(node)
    kept = _clamp16(requantize(forget * cell, *by["keep"]))
    added = _clamp16(requantize(take * _sigmoid.tanh(3 * gates[2]), *by["add"]))
    cell, clip = _clamp16(kept + added), _clip(node)
    cell = np.clip(cell, -clip, clip) if clip > 0 else cell
    shown = requantize(_sigmoid.tanh(cell * (3 << _left(node))) * give, *by["give"]) + node.input(HIDDEN).zero
    return shown.clip(*((-32768, 32767) if _wide(node) else (-128, 127))), cell


def reference(lstm: Lstm, inputs: list[Any]) -> Array:
    return lstm.layout.joined([hidden for hidden, _ in _run(lstm, inputs)]).astype(lstm.x.dtype)


def _run(lstm: Lstm, inputs: list[Any]) -> Iterator[tuple[Array, Array]]:
    """Hidden state and cell, [batches, units], after every step; the first step starts from ``inputs``."""
    shape = (lstm.layout.batches, lstm.units)
    hidden, cell = (inputs[i].reshape(shape).astype(np.int64) for i in (HIDDEN, CELL))
    for x in lstm.layout.stepwise(inputs[0].astype(np.int64)):
        hidden, cell = _step(lstm.node, x, hidden, cell, inputs)
        yield hidden, cell


def _multipliers(node: Node) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Multipliers of every gate's sums over the input and over the hidden state."""
    x, hidden = node.input(0), node.input(HIDDEN)
    return [
        (
            quantize_multiplier(x.scale * node.input(w).scale / _SUM),
            quantize_multiplier(hidden.scale * node.input(r).scale / _SUM),
        )
        for w, r, _ in GATES
    ]


def _narrowed(scale: tuple[int, int]) -> tuple[int, int]:
    """A multiplier of 15 bits and the shift to the right that goes with it."""
    return int(reduced_multiplier(scale[0])), 15 - scale[1]


def params_of(lstm: Lstm) -> dict[str, Param]:
    """``tw_lstm_s8_params`` of kernels_c/recurrent/lstm_s8.h."""
    node, layout, size, units = lstm.node, lstm.layout, lstm.x.shape[-1], lstm.units
    sizes = {"batches": layout.batches, "steps": layout.steps, "size": size, "units": units}
    params: dict[str, Param] = {**sizes, "clip": _clip(node)}
    for name, n in (("x", size), ("y", units)):
        place = layout.place(n)
        params |= {f"{name}_batch": place["batch"], f"{name}_step": place["step"]}
    multipliers = _multipliers(node)
    if _wide(node):
        multipliers = [(_narrowed(of_x), _narrowed(of_h)) for of_x, of_h in multipliers]
    params |= {"mult": [x[0] for x, _ in multipliers], "shift": [x[1] for x, _ in multipliers]}
    params |= {"hidden_mult": [h[0] for _, h in multipliers], "hidden_shift": [h[1] for _, h in multipliers]}
    params |= {"x_zero": node.input(0).zero, "hidden_zero": node.input(HIDDEN).zero, "cell": _left(node)}
    for name, (mult, shift) in _products(node).items():
        params |= {f"{name}_mult": mult, f"{name}_shift": shift}
    return params


def call_of(lstm: Lstm, kernel: str, inputs: Sequence[Argument], scratch: int, sigmoid: Constant | None = None) -> Call:
    """A kernel's call; ``inputs`` are those between x and the table, which is the usual one unless given."""
    node = lstm.node
    every = (node.input(0), *inputs, sigmoid or table(_sigmoid.table()))
    outputs = (node.output, node.input(HIDDEN), node.input(CELL))
    return Call(kernel, params_of(lstm), every, outputs, scratch, macs=lstm.macs)


def lower(lstm: Lstm) -> Call:
    """The call in plain C."""
    inputs = [lstm.node.input(i) for gate in GATES for i in gate]
    return call_of(lstm, "tw_lstm_s16" if _wide(lstm.node) else "tw_lstm_s8", inputs, 8 * lstm.units)
