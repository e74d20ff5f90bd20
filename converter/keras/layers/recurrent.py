"""LSTM, GRU and SimpleRNN, Bidirectional and TimeDistributed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.cells import Cell, Step, gru_step, lstm_step, rnn_step, stack, unroll
from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.keras.call import Call, array
from twinfer.runtime.graph import Tensor

Floats = NDArray[np.float32]

#: How ``Bidirectional`` merges the two directions, beside concat and None.
MERGES = {"sum": "ADD", "mul": "MUL", "ave": "ADD"}


def _rows(weights: Floats, order: Sequence[int]) -> Floats:
    """[depth, gates * units] as [gates * units, depth], the gates in another order."""
    parts = np.split(weights, len(order), axis=-1)
    return np.ascontiguousarray(np.concatenate([parts[i] for i in order], axis=-1).T)


def _cell(g: Emitter, call: Call, layer: Any, order: Sequence[int], functions: Sequence[Any]) -> Cell:
    """The cell of a layer whose gates Keras has in this order."""
    own = layer.cell
    kernel, recurrent = (
        array(w, f"{layer.name}/{n}") for n, w in (("kernel", own.kernel), ("r", own.recurrent_kernel))
    )
    bias = np.zeros(kernel.shape[-1], np.float32) if own.bias is None else array(own.bias, f"{layer.name}/bias")
    reset_after = bool(getattr(own, "reset_after", False))
    units, late = recurrent.shape[0], None
    if reset_after:
        both = bias if bias.ndim == 2 else np.zeros((2, kernel.shape[-1]), np.float32)
        bias, late = both[0].copy(), both[1, 2 * units :].copy()
        bias[: 2 * units] += both[1, : 2 * units]
    activations = [lambda g, x, function=f: call.again(function, [x])[0] for f in functions]
    return Cell(g, _rows(kernel, order), _rows(bias, order), _rows(recurrent, order), activations, bias_r=late)


def _kind(g: Emitter, call: Call, layer: Any) -> tuple[Cell, Step, int]:
    """Cell, what a step does, and the number of states."""
    own = layer.cell
    name = type(own).__name__
    if name == "LSTMCell":  # Keras has the gates i, f, c, o, a cell here i, o, f, c
        functions = [own.recurrent_activation, own.activation, own.activation]
        return _cell(g, call, layer, (0, 3, 1, 2), functions), lstm_step, 2
    if name == "GRUCell":
        return _cell(g, call, layer, (0, 1, 2), [own.recurrent_activation, own.activation]), gru_step, 1
    call.need(name == "SimpleRNNCell", f"a cell of class {name}; use LSTM, GRU or SimpleRNN")
    return _cell(g, call, layer, (0,), [own.activation]), rnn_step, 1


def _run(g: Emitter, call: Call, layer: Any, x: Tensor, initial: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The output [n, units] or [n, time, units], in the order in which the layer works, and the last states."""
    call.need(not layer.stateful, "stateful=True; feed the state and return it (return_state=True)")
    cell, step, count = _kind(g, call, layer)
    zeros = [constant(np.zeros((x.shape[0], cell.hidden), np.float32)) for _ in range(count)]
    backwards = bool(layer.go_backwards)
    steps = unroll(cell, step, g.transpose(x, (1, 0, 2)), list(initial) or zeros, backwards)
    steps = steps[::-1] if backwards else steps
    if not layer.return_sequences:
        return steps[-1][0], steps[-1]
    return g.transpose(stack(g, [states[0] for states in steps]), (1, 0, 2)), steps[-1]


def _initial(call: Call) -> list[Tensor]:
    given = call.argument(1, "initial_state")
    return list(given) if isinstance(given, list | tuple) else [] if given is None else [given]


def recurrent(g: Emitter, call: Call) -> list[Tensor]:
    y, states = _run(g, call, call.layer, call.input(), _initial(call))
    return [y, *states] if call.layer.return_state else [y]


def bidirectional(g: Emitter, call: Call) -> list[Tensor]:
    """Two layers, the second of which runs backwards; its output sequence is reversed."""
    own, x, initial = call.layer, call.input(), _initial(call)
    half = len(initial) // 2
    y, states = _run(g, call, own.forward_layer, x, initial[:half])
    z, others = _run(g, call, own.backward_layer, x, initial[half:])
    z = g.flip(z, 1) if own.return_sequences else z
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
    "GRU": recurrent,
    "LSTM": recurrent,
    "RNN": recurrent,
    "SimpleRNN": recurrent,
    "TimeDistributed": time_distributed,
}
