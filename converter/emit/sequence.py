"""LSTM as TFLite's own operator, whose state is set before every run; and such an operator written out step by step.

UNIDIRECTIONAL_SEQUENCE_LSTM keeps its state, in variables, from one run to the next. ONNX and Keras begin every run
with zeros. So a SLICE of zeros writes each variable right before the operator. LiteRT and TFLM run operators in order
and let any operator write a variable. SLICE is one that LiteRT does not compute ahead of time (unlike RESHAPE, TILE,
CONCATENATION and FILL of constants, which would write only once), and that TFLM has in all types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from twinfer.converter.emit.cells import Cell, Step, Weights, lstm_step, sigmoid, stack, tanh, unroll
from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.passes._rewrite import needed_nodes, rebuild, with_tensors
from twinfer.converter.quantize.states import lstm_is_float
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.ops.recurrent.lstm import CELL, GATES, HIDDEN

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"

#: Activations of the gates, of the new value and of the output.
_USUAL = [sigmoid, tanh, tanh]

#: Where a cell's gates (i, o, f, c) are among ``GATES`` (f, i, c, o).
_PLACES = (1, 3, 0, 2)


def fits(cell: Cell, step: Step, states: Sequence[Tensor]) -> bool:
    """Whether TFLite's operator computes this LSTM: plain gates and activations, and states that begin with zeros."""
    plain = cell.peepholes is None and not cell.coupled and cell.clip == math.inf
    zeros = all(state.data is not None and not state.data.any() for state in states)
    constants = all(_is_known(value) for value in (cell.w, cell.r, cell.bias))
    return step is lstm_step and plain and list(cell.activations) == _USUAL and zeros and constants


def _is_known(value: Weights) -> bool:
    """Whether weights are constant, and have one scale if they remember integers: of several TFLite's LSTM knows
    nothing."""
    return isinstance(value, np.ndarray) or (value.data is not None and not (value.quant and value.quant.per_channel))


def sequence_lstm(cell: Cell, x: Tensor, time_major: bool, backwards: bool = False) -> tuple[Tensor, list[Tensor]]:
    """The outputs of all steps, [time, batch, hidden] or [batch, time, hidden] as x [time, batch, depth] or
    [batch, time, depth], in order of time, also if the LSTM runs backwards; and the last states [batch, hidden]."""
    g, time = cell.g, 0 if time_major else 1
    x = g.flip(x, time) if backwards else x
    batch, steps = x.shape[1 - time], x.shape[time]
    inputs: list[Tensor | None] = [x, *[None] * 23]
    for i, place in enumerate(_PLACES):
        for position, weights in zip(GATES[place], (cell.w, cell.r, cell.bias), strict=True):
            inputs[position] = cell.rows(weights, i, i + 1)
    zeros = constant(np.zeros((batch, cell.hidden), np.float32))
    inputs[HIDDEN], inputs[CELL] = _, cells = _begun(g, zeros, "hidden"), _begun(g, zeros, "cell")
    shape = (*x.shape[:2], cell.hidden)
    y = g.emit(LSTM, inputs, shape, fused_activation_function="TANH", time_major=time_major)
    begin, size = ((steps - 1, 0, 0), (1, batch)) if time_major else ((0, steps - 1, 0), (batch, 1))
    last = g.reshape(g.part(y, begin, (*size, cell.hidden)), zeros.shape)
    seen = g.unary("ABS", cells)  # a stand-in: ``settled`` writes the steps out if anything reads it
    return g.flip(y, time) if backwards else y, [last, seen]


def _begun(g: Emitter, zeros: Tensor, name: str) -> Tensor:
    """A variable that is zero whenever the operators behind it begin."""
    whole = [np.array(numbers, np.int32) for numbers in ([0, 0], zeros.shape)]
    state = g.emit("SLICE", [zeros, *whole], zeros.shape)
    variable = replace(state, name=f"{state.name}_{name}", variable=True)
    g.builder.nodes[-1] = replace(g.builder.nodes[-1], outputs=(variable,))
    del g.builder.tensors[state]
    return g.builder.add(variable)


def settled(graph: Graph) -> Graph:
    """The graph without LSTMs that nothing reads, and with steps in the place of those whose last cells are read.

    An operator could read the variable of the cells only by its place behind the LSTM, which delegates may change.
    """
    wanted = set(graph.outputs)
    for node in reversed(graph.nodes):
        if any(t in wanted for t in node.outputs):
            wanted.update(t for t in node.inputs if t is not None)
    cells = {n.input(0): n.output for n in graph.nodes if n.op == "ABS" and n.input(0).variable}
    lstms = [node for node in graph.nodes if node.op == LSTM and node.input(CELL) in cells]
    dead = [node for node in lstms if node.output not in wanted and cells[node.input(CELL)] not in wanted]
    states = {node.input(i) for node in dead for i in (HIDDEN, CELL)}
    gone = {n for n in graph.nodes if n in dead or (n.op == "SLICE" and n.output in states)}
    gone |= {n for n in graph.nodes if n.op == "ABS" and n.input(0) in cells and n.output not in wanted}
    kept = rebuild(graph, needed_nodes(graph, [n for n in graph.nodes if n not in gone])) if lstms else graph
    return written_out(kept, lambda node: cells.get(node.input(CELL)) in wanted)


def written_out(graph: Graph, chosen: Callable[[Node], bool]) -> Graph:
    """The graph with steps in the place of these LSTMs, where they are what ``sequence_lstm`` gives."""
    first = {node.output: node for node in graph.nodes if node.op == "SLICE" and node.output.variable}
    cells = {node.input(0): node for node in graph.nodes if node.op == "ABS" and node.input(0).variable}
    steps: dict[Node, Sequence[Node]] = {}
    for node in graph.nodes:
        states = [node.input(HIDDEN), node.input(CELL)] if node.op == LSTM else []
        if states and all(state in first for state in states) and lstm_is_float(node) and chosen(node):
            last = cells.get(states[1])
            steps |= dict.fromkeys((*(first[state] for state in states), *([last] if last else [])), ())
            steps[node] = _steps(node, last.output if last else None)
    return rebuild(graph, [n for node in graph.nodes for n in steps.get(node, (node,))]) if steps else graph


def _steps(node: Node, cells: Tensor | None) -> list[Node]:
    """The nodes that compute what the LSTM does, and its last cells."""
    g, x = Emitter(""), node.input(0)
    g.place = node.output.name
    order = [GATES[place] for place in _PLACES]
    w, r, bias = (np.concatenate([np.asarray(node.input(gate[i]).data) for gate in order]) for i in range(3))
    cell = Cell(g, w, bias, r, _USUAL)
    time_major = bool(node.options["time_major"])
    x = x if time_major else g.transpose(x, (1, 0, 2))
    zeros = constant(np.zeros((x.shape[1], cell.hidden), np.float32))
    outputs, states = unroll(cell, lstm_step, x, [zeros, zeros])
    rows = stack(g, outputs)
    same = {rows if time_major else g.transpose(rows, (1, 0, 2)): node.output}
    same |= {states[1]: cells} if cells else {}
    return [with_tensors(each, same) for each in g.builder.nodes]
