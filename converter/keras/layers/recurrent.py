"""LSTM, GRU, SimpleRNN, RNN over any cells, ConvLSTM, Bidirectional and TimeDistributed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.cells import (
    Advance,
    Cell,
    Step,
    flipped,
    gru_step,
    lstm_step,
    over_time,
    rnn_step,
    sigmoid,
    stack,
    tanh,
    unroll,
)
from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.sequence import fits, sequence_lstm
from twinfer.converter.keras.call import Call, array, as_tensor, numbers
from twinfer.runtime.graph import Tensor

Floats = NDArray[np.float32]

#: How ``Bidirectional`` merges the two directions, beside concat and None.
MERGES = {"sum": "ADD", "mul": "MUL", "ave": "ADD"}

#: Functions of Keras's that TFLite's LSTM has.
USUAL = {keras.activations.sigmoid: sigmoid, keras.activations.tanh: tanh}


def _rows(weights: Floats, order: Sequence[int]) -> Floats:
    """[depth, gates * units] as [gates * units, depth], the gates in another order."""
    parts = np.split(weights, len(order), axis=-1)
    return np.ascontiguousarray(np.concatenate([parts[i] for i in order], axis=-1).T)


def _cell(g: Emitter, call: Call, own: Any, order: Sequence[int], functions: Sequence[Any]) -> Cell:
    """The cell of Keras's, whose gates are in this order there."""
    kernel, recurrent = (array(w, f"{own.name}/{n}") for n, w in (("kernel", own.kernel), ("r", own.recurrent_kernel)))
    bias = np.zeros(kernel.shape[-1], np.float32) if own.bias is None else array(own.bias, f"{own.name}/bias")
    units, late = recurrent.shape[0], None
    if getattr(own, "reset_after", False):
        both = bias if bias.ndim == 2 else np.zeros((2, kernel.shape[-1]), np.float32)
        bias, late = both[0].copy(), both[1, 2 * units :].copy()
        bias[: 2 * units] += both[1, : 2 * units]
    activations = [USUAL.get(f, partial(_function, call, f)) for f in functions]
    return Cell(g, _rows(kernel, order), _rows(bias, order), _rows(recurrent, order), activations, bias_r=late)


def _function(call: Call, function: Any, g: Emitter, x: Tensor) -> Tensor:
    return call.again(function, [x])[0]


def _kind(g: Emitter, call: Call, own: Any) -> tuple[Cell, Step, int] | None:
    """Cell, what a step does, and the number of states; None for a cell of another class."""
    kind = type(own)
    if kind is keras.layers.LSTMCell:  # Keras has the gates i, f, c, o, a cell here i, o, f, c
        functions = [own.recurrent_activation, own.activation, own.activation]
        return _cell(g, call, own, (0, 3, 1, 2), functions), lstm_step, 2
    if kind is keras.layers.GRUCell:
        return _cell(g, call, own, (0, 1, 2), [own.recurrent_activation, own.activation]), gru_step, 1
    return (_cell(g, call, own, (0,), [own.activation]), rnn_step, 1) if kind is keras.layers.SimpleRNNCell else None


def _convolved(g: Emitter, call: Call, own: Any, x: Tensor) -> tuple[Tensor, Callable[[Any], list[Tensor]]]:
    """Of ConvLSTM: what the gates see of the inputs of all steps [n, time, ..., 4 * filters], and what a step does."""
    convolution, filters = getattr(keras.layers, f"Conv{own.rank}D"), own.filters
    size, layout = own.kernel_size, own.data_format
    of_x = convolution(4 * filters, size, own.strides, own.padding, layout, own.dilation_rate, use_bias=own.use_bias)
    of_h = convolution(4 * filters, size, padding="same", data_format=layout, use_bias=False)
    for layer, kernel, bias in ((of_x, own.kernel, own.bias), (of_h, own.recurrent_kernel, None)):
        layer.build((None, *[None] * own.rank, kernel.shape[-2]))
        layer.set_weights([numbers(kernel), *([] if bias is None else [numbers(bias)])])
    (seen,) = call.again(of_x, [g.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))])

    def advance(given: Any) -> list[Tensor]:
        row, (h, c) = given
        gates = g.binary("ADD", row, call.again(of_h, [h])[0])
        first, shape = [0] * (len(gates.shape) - 1), (*gates.shape[:-1], filters)
        i, f, new, o = (g.part(gates, (*first, k * filters), shape) for k in range(4))
        i, f, o = (call.again(own.recurrent_activation, [gate])[0] for gate in (i, f, o))
        kept, taken = g.binary("MUL", f, c), g.binary("MUL", i, call.again(own.activation, [new])[0])
        c = g.binary("ADD", kept, taken)
        h = g.binary("MUL", o, call.again(own.activation, [c])[0])
        return [h, h, c]

    return g.reshape(seen, (*x.shape[:2], *seen.shape[1:])), advance


@dataclass(frozen=True)
class Run:
    """A layer over x [n, time, ...]: ``cell`` at every step, from ``initial`` on or zeros. ``mask`` [n, time]: at which
    steps a sequence has a value; at others outputs and states stay as they were."""

    g: Emitter
    call: Call
    layer: Any
    mask: Tensor | None

    @property
    def backwards(self) -> bool:
        return bool(self.layer.go_backwards)

    def cells(self, x: Tensor, cells: Sequence[Any], initial: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The outputs [n, time, ...] in order of time, the last one, and the last states, of cells one after the other:
        each runs over all steps of the one before."""
        lasts: list[Tensor] = []
        last = x
        for cell in cells:
            shapes = self._states(cell, x)
            given = initial[len(lasts) : len(lasts) + len(shapes)]
            x, last, states = self._over(x, cell, given or [constant(np.zeros(s, np.float32)) for s in shapes])
            lasts += states
        return x, last, lasts

    def _states(self, cell: Any, x: Tensor) -> list[tuple[int, ...]]:
        """The shapes of a cell's states."""
        if not type(cell).__name__.startswith("ConvLSTM"):
            sizes = keras.tree.flatten(cell.state_size)
            return [(x.shape[0], int(size)) for size in sizes]
        spec, *_ = keras.tree.flatten(self.layer.compute_output_spec(keras.KerasTensor(x.shape)))
        return [(x.shape[0], *spec.shape[2 if self.layer.return_sequences else 1 :])] * 2  # of ConvLSTM

    def _over(self, x: Tensor, own: Any, states: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        g, known = self.g, _kind(self.g, self.call, own)
        if known is not None and self.mask is None and fits(*known[:2], states):
            y, states = sequence_lstm(known[0], x, False, self.backwards)
            return y, states[0], states
        zeros = all(state.data is not None and not state.data.any() for state in states)
        rest = "zeros" if self.layer.zero_output_for_mask else "state" if known and zeros else "before"
        valid = None if self.mask is None else g.transpose(self.mask, (1, 0))
        if known is not None:
            outputs, states = unroll(*known[:2], g.transpose(x, (1, 0, 2)), states, self.backwards, valid, rest)
        else:
            turned = self.backwards and valid is not None  # a loop goes through all that it reads in one direction
            x, advance = self._steps(g.flip(x, 1) if turned else x, own)
            order = range(x.shape[1])[:: -1 if self.backwards and not turned else 1]
            valid = flipped(g, valid) if turned and valid is not None else valid
            outputs, states = over_time(g, order, states, advance, valid, rest)
            outputs = outputs[::-1] if turned else outputs
        rows = stack(g, outputs)
        return g.transpose(rows, (1, 0, *range(2, len(rows.shape)))), outputs[0 if self.backwards else -1], states

    def _steps(self, x: Tensor, own: Any) -> tuple[Tensor, Advance]:
        """What a step of a cell of any class does, by what its ``call`` does; and the inputs that steps read."""
        g = self.g
        run: Callable[[Any], list[Tensor]] = partial(self.call.again, own)
        if type(own).__name__ == "ConvLSTMCell":
            x, run = _convolved(g, self.call, own, x)

        def advance(t: int, states: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
            row = g.part(x, (0, t, *[0] * (len(x.shape) - 2)), (x.shape[0], 1, *x.shape[2:]))
            y, *new = run([g.reshape(row, (x.shape[0], *x.shape[2:])), list(states)])
            return y, new

        return x, advance


def _run(
    g: Emitter, call: Call, layer: Any, x: Tensor, initial: list[Tensor], in_time: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """The output [n, units] or [n, time, units], in the order in which the layer works unless ``in_time``, and the last
    states."""
    call.need(not layer.stateful, "stateful=True; feed the state and return it (return_state=True)")
    run = Run(g, call, layer, _mask(g, call))
    stacked = type(layer.cell) is keras.layers.StackedRNNCells
    y, last, states = run.cells(x, layer.cell.cells if stacked else [layer.cell], initial)
    if not layer.return_sequences:
        return last, states
    return g.flip(y, 1) if run.backwards and not in_time else y, states


def _mask(g: Emitter, call: Call) -> Tensor | None:
    given = call.argument(2, "mask")
    return None if given is None else g.cast(as_tensor(g, given), "BOOL")


def _initial(call: Call) -> list[Tensor]:
    given = call.argument(1, "initial_state")
    return [t for t in keras.tree.flatten(given) if isinstance(t, Tensor)]


def recurrent(g: Emitter, call: Call) -> list[Tensor]:
    y, states = _run(g, call, call.layer, call.input(), _initial(call))
    return [y, *states] if call.layer.return_state else [y]


def bidirectional(g: Emitter, call: Call) -> list[Tensor]:
    """Two layers, the second of which runs backwards."""
    own, x, initial = call.layer, call.input(), _initial(call)
    half = len(initial) // 2
    y, states = _run(g, call, own.forward_layer, x, initial[:half], in_time=True)
    z, others = _run(g, call, own.backward_layer, x, initial[half:], in_time=True)
    outputs = [y, z]
    if own.merge_mode == "concat":
        outputs = [g.concat([y, z], len(y.shape) - 1)]
    elif own.merge_mode is not None:
        merged = reduce(lambda a, b: g.binary(MERGES[own.merge_mode], a, b), outputs)
        outputs = [g.binary("MUL", merged, np.array(0.5, np.float32)) if own.merge_mode == "ave" else merged]
    return [*outputs, *states, *others] if own.return_state else outputs


def time_distributed(g: Emitter, call: Call) -> Tensor:
    """The layer over all steps as if they were samples."""
    x = call.input()
    flat = g.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    (y,) = call.again(call.layer.layer, [flat])
    return g.reshape(y, (*x.shape[:2], *y.shape[1:]))


IMPORTERS = {
    "Bidirectional": bidirectional,
    "ConvLSTM1D": recurrent,
    "ConvLSTM2D": recurrent,
    "ConvLSTM3D": recurrent,
    "GRU": recurrent,
    "LSTM": recurrent,
    "RNN": recurrent,
    "SimpleRNN": recurrent,
    "TimeDistributed": time_distributed,
}
