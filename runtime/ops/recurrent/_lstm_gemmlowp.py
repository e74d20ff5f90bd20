"""LSTMs of int8 with all their options: LiteRT's arithmetic of 8 x 8 -> 16 bits.

Source: LiteRT lstm_eval.cc, LstmStepInteger8x8_16; unidirectional_sequence_lstm.cc, PopulateQuantizedLstmParams8x8_16.
Faults of LiteRT, which are not copied: with peephole weights and a projection it takes cells by the number of outputs.
Its projection's bound counts from 0, not from the zero point; here it does, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, round_shift, wrap32
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.op import need, unsupported
from twinfer.runtime.ops.core.gemmlowp import inverse_root
from twinfer.runtime.ops.core.gemmlowp16 import logistic, tanh
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.recurrent import _lstm_float
from twinfer.runtime.ops.recurrent._lstm import MODULATION, Gate, Lstm, weights_of
from twinfer.runtime.ops.recurrent._sequences import need_plain_weights
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call

#: Tensors that the node lists as intermediate: what the gates sum before they are normalised, and what is projected.
INTERMEDIATES = 5

#: Multiplier and shift.
Scale = tuple[int, int]


def check(lstm: Lstm) -> None:
    """ModelError or UnsupportedOperatorError unless scales and intermediates are there and within kernels' bounds."""
    node = lstm.node
    x, hidden, cell = lstm.x, node.input(lstm.hidden), node.input(lstm.cell)
    need_quant(node, x, hidden, cell, node.output)
    need_plain_weights(node, *weights_of(lstm), *_norms(lstm))
    need(cell.zero == 0, node, f"{cell} must have a zero point of 0")
    need((hidden.scale, hidden.zero) == (node.output.scale, node.output.zero), node,
         f"{hidden} and {node.output} must be quantised alike")  # fmt: skip
    if math.frexp(cell.scale)[0] != 0.5 or not 0 <= _bits(lstm) <= 6:
        raise unsupported(node, f"{cell} must have a power of 2 from 2**-15 to 2**-9 as its scale")
    if node.options.get("fused_activation_function", "TANH") != "TANH":
        raise unsupported(node, "the activation of an integer LSTM must be TANH")
    for norm in _norms(lstm):
        if norm.scale >= 2.0**17:
            raise unsupported(node, f"{norm} has a scale that is beyond 2**17")
    tensors = node.extra.get("intermediates", ())
    if len(tensors) != INTERMEDIATES or None in tensors:
        raise unsupported(node, f"an integer LSTM of this form needs {INTERMEDIATES} intermediate tensors, not "
                          f"{len(tensors)}; with 12 of them LiteRT reads scales beyond their array")  # fmt: skip
    for i in (*(_listed(i) for i in range(4) if lstm.norm), INTERMEDIATES - 1):
        if i != 0 or not lstm.coupled:
            _intermediate(lstm, i)


def _listed(gate: int) -> int:
    """The position of a gate's intermediate tensor: they come in the order input, forget, cell, output."""
    return (1, 0, 2, 3)[gate]


def _norms(lstm: Lstm) -> list[Tensor]:
    return [t for t in (lstm.tensor(gate.norm) for gate in lstm.used) if t is not None]


def _intermediate(lstm: Lstm, i: int) -> tuple[np.float32, int]:
    """Scale and zero point of an intermediate tensor; ModelError if it has none."""
    tensor: Tensor = lstm.node.extra["intermediates"][i]
    need(tensor.quant is not None and not tensor.quant.per_channel, lstm.node, f"{tensor} has no quantisation")
    need(math.isfinite(tensor.scale) and tensor.scale > 0, lstm.node, f"{tensor} has no usable scale")
    need(-128 <= tensor.zero <= 127, lstm.node, f"{tensor}: zero point {tensor.zero} is not int8's")
    return np.float32(tensor.scale), tensor.zero


def _bits(lstm: Lstm) -> int:
    """Integer bits of the cell."""
    return 14 + math.frexp(lstm.node.input(lstm.cell).scale)[1]


def _bound(bound: float, scale: float, most: float) -> int:
    return int(min(np.float32(bound) / np.float32(scale), np.float32(most)))


def _scale(lstm: Lstm, *factors: float) -> Scale:
    """The product of all but the last, over the last, in float32."""
    real = np.float32(factors[0])
    for factor in factors[1:-1]:
        real = real * np.float32(factor)
    return quantize_multiplier(float(real / np.float32(factors[-1])))


class _Scales:
    """The multipliers of a gate, those of an absent input 0."""

    def __init__(self, lstm: Lstm, i: int) -> None:
        gate, node = lstm.gates[i], lstm.node
        w, r, peephole, norm = (lstm.tensor(p) for p in (gate.weights, gate.recurrent, gate.peephole, gate.norm))
        into = float(_intermediate(lstm, _listed(i))[0]) if lstm.norm and w is not None else 2.0**-12
        none: Scale = (0, 0)
        self.x = none if w is None else _scale(lstm, w.scale, lstm.x.scale, into)
        self.hidden = none if r is None else _scale(lstm, r.scale, node.input(lstm.hidden).scale, into)
        cell = node.input(lstm.cell).scale
        self.peephole = none if peephole is None or w is None else _scale(lstm, cell, peephole.scale, into)
        mult, shift = none if norm is None else quantize_multiplier(norm.scale)
        self.norm = (mult, shift + 12) if mult else none
        self.guard = 1 if norm is None else max(1, int(np.float32(10000) * np.float32(norm.scale)))


def _ends(lstm: Lstm) -> tuple[Scale, Scale, int]:
    """Scale of what the output gate shows, scale of the projection, zero point of what is shown."""
    scale, zero = _intermediate(lstm, INTERMEDIATES - 1)
    shown = quantize_multiplier(float(np.float32(2.0**-30 / float(scale))))
    projection = lstm.tensor(lstm.projection)
    if projection is None:
        return shown, (0, 0), zero
    return shown, _scale(lstm, projection.scale, float(scale), lstm.node.input(lstm.hidden).scale), -zero


def _clamp16(x: Array) -> Array:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def _normalized(x: Array, factors: Array, bias: Array, scales: _Scales) -> Array:
    """Source: LiteRT's ApplyLayerNorm."""
    n, rows = max(x.shape[1], 1), []
    for row in x:
        mean = math.trunc(int(row.sum()) * 1024 / n)
        variance = int(int((row * row).sum()) * ((1 << 20) // n) - mean * mean)
        variance = abs(variance) // (1 << 20) * (1 if variance > 0 else -1)
        mult, right = inverse_root(np.array(scales.guard if variance < 1 else variance))
        values = wrap32(requantize(1024 * row - mean, mult, -right) * factors + bias)
        rounded = np.trunc((values + np.where(values > 0, 512, -512)) / 1024).astype(np.int64)
        rows.append(_clamp16(requantize(rounded, *scales.norm)))
    return np.array(rows)


class _Step:
    """One step of all batches; ``inputs`` are the node's values by position."""

    def __init__(self, lstm: Lstm, inputs: list[Any]) -> None:
        self.lstm, self.inputs, node = lstm, inputs, lstm.node
        self.scales = [_Scales(lstm, i) for i in range(4)]
        self.clip, self.proj_clip = _clips(lstm)
        self.hidden_zero = node.input(lstm.hidden).zero

    def _weights(self, position: int) -> Array:
        return np.asarray(self.inputs[position].astype(np.int64).T)

    def _gate(self, i: int, x: Array, hidden: Array, cell: Array) -> Array:
        gate, scales = self.lstm.gates[i], self.scales[i]
        bias = self.inputs[gate.bias].astype(np.int64)
        start = 0 if self.lstm.norm else bias
        sums = (x - self.lstm.x.zero) @ self._weights(gate.weights) + start
        more = (hidden - self.hidden_zero) @ self._weights(gate.recurrent)
        total = _clamp16(requantize(wrap32(sums), *scales.x))
        total = _clamp16(total + requantize(wrap32(more), *scales.hidden))
        if self.lstm.peephole and gate.peephole is not None:
            seen = self.inputs[gate.peephole].astype(np.int64) * cell
            total = _clamp16(total + requantize(seen, *scales.peephole))
        if self.lstm.norm and gate.norm is not None:
            total = _normalized(total, self.inputs[gate.norm].astype(np.int64), bias, scales)
        return tanh(total, 3) if i == MODULATION else logistic(total, 3)

    def run(self, x: Array, hidden: Array, cell: Array) -> tuple[Array, Array]:
        lstm, bits, seen = self.lstm, _bits(self.lstm), (x, hidden)
        forget, new = self._gate(0, *seen, cell), self._gate(2, *seen, cell)
        take = 32767 - forget if lstm.coupled else self._gate(1, *seen, cell)
        cell = _clamp16(round_shift(forget * cell, 15) + round_shift(take * new, 15 + bits))
        cell = np.clip(cell, -self.clip, self.clip) if self.clip else cell
        (mult, shift), scale, zero = _ends(lstm)
        product = self._gate(3, *seen, cell) * tanh(cell, bits)
        shown = np.clip(requantize(product, mult, shift) + zero, -128, 127)
        if not lstm.projected:
            return shown, cell
        bias = 0 if lstm.tensor(lstm.projection_bias) is None else self.inputs[lstm.projection_bias].astype(np.int64)
        sums = wrap32((shown - zero) @ self._weights(lstm.projection) + bias)
        hidden = np.clip(requantize(sums, *scale) + self.hidden_zero, -128, 127)
        return np.clip(hidden, -self.proj_clip, self.proj_clip) if self.proj_clip else hidden, cell


def _clips(lstm: Lstm) -> tuple[int, int]:
    node = lstm.node
    cell, hidden = node.input(lstm.cell).scale, node.output.scale
    clip, proj = (float(node.options.get(f"{name}_clip", 0.0)) for name in ("cell", "proj"))
    return _bound(clip, cell, 32767), _bound(proj, hidden, 127)


def reference(lstm: Lstm, inputs: list[Any]) -> Array:
    step, outputs = _Step(lstm, inputs), []
    hidden = inputs[lstm.hidden].reshape(lstm.layout.batches, lstm.outputs).astype(np.int64)
    cell = inputs[lstm.cell].reshape(lstm.layout.batches, lstm.units).astype(np.int64)
    for x in lstm.layout.stepwise(inputs[lstm.places.x].astype(np.int64)):
        hidden, cell = step.run(x, hidden, cell)
        outputs.append(hidden)
    return lstm.layout.joined(outputs).astype(np.int8)


def lower(lstm: Lstm) -> Call:
    node = lstm.node
    params: dict[str, Param] = {"cell": _lstm_float.cell(lstm, lstm.layout.place(lstm.outputs))}
    params |= {name: int(getattr(lstm, name)) for name in ("coupled", "peephole", "norm")}
    shown, project, zero = _ends(lstm)
    clip, proj_clip = _clips(lstm)
    params |= {"project": int(lstm.projected), "clip": clip, "proj_clip": proj_clip, "bits": _bits(lstm)}
    params |= {"x_zero": lstm.x.zero, "hidden_zero": node.input(lstm.hidden).zero, "shown_zero": zero}
    params |= {"shown_mult": shown[0], "shown_shift": shown[1]}
    params |= {"project_mult": project[0], "project_shift": project[1]}
    scales = [_Scales(lstm, i) for i in range(4)]
    for name in ("x", "hidden", "peephole", "norm"):
        for k, end in enumerate(("mult", "shift")):
            params[f"{name}_{end}"] = [getattr(s, name)[k] for s in scales]
    params["guard"] = [s.guard for s in scales]
    outputs = (node.output, node.input(lstm.hidden), node.input(lstm.cell))
    return Call("tw_lstm_gemmlowp_s8", params, _inputs(lstm), outputs, 9 * lstm.units, macs=lstm.macs)


def _inputs(lstm: Lstm) -> tuple[Argument, ...]:
    def of(gate: Gate) -> tuple[Argument, ...]:
        peephole = lstm.tensor(gate.peephole) if lstm.peephole else None
        return (*(lstm.tensor(p) for p in (gate.weights, gate.recurrent, gate.bias)), peephole, lstm.tensor(gate.norm))

    gates = (argument for gate in lstm.gates for argument in of(gate))
    return (lstm.x, *gates, lstm.tensor(lstm.projection), lstm.tensor(lstm.projection_bias))
