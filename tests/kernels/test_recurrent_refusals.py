"""Recurrent nodes that are refused: every one differs from a node that is taken in one thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import cases_of

from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Node, Quant, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.recurrent._lstm_cases import Form, case
from twinfer.runtime.shapes import infer_node

Change = Callable[[Node], Node]

HIDDEN, CELL = 18, 19


def without(*positions: int) -> Change:
    return lambda node: replace(node, inputs=tuple(None if i in positions else t for i, t in enumerate(node.inputs)))


def at(position: int, **changes: Any) -> Change:
    """The input with other fields; a constant of another shape holds zeros."""

    def change(node: Node) -> Node:
        inputs, old = list(node.inputs), node.input(position)
        zeros = {} if "shape" not in changes or old.data is None else {"data": np.zeros(changes["shape"], old.dtype)}
        inputs[position] = replace(old, **{**zeros, **changes})
        return replace(node, inputs=tuple(inputs))

    return change


def put(position: int, value: Tensor) -> Change:
    return lambda node: replace(node, inputs=(*node.inputs[:position], value, *node.inputs[position + 1 :]))


def options(**values: Any) -> Change:
    return lambda node: replace(node, options={**node.options, **values})


def intermediates(count: int, **changes: Any) -> Change:
    """Another number of intermediate tensors, the last one changed."""

    def change(node: Node) -> Node:
        listed = (*node.extra["intermediates"], *[node.extra["intermediates"][0]] * 12)[:count]
        last = (replace(listed[-1], **changes),) if listed else ()
        return replace(node, extra={"intermediates": (*listed[:-1], *last)})

    return change


def quant(scale: float, zero: int = 0) -> Quant:
    return Quant.per_tensor(scale, zero)


def floats(*shape: int) -> Tensor:
    return tensor(shape, data=np.zeros(shape), name="extra")


def lstm(kind: str, flags: str = "", outputs: int = 0, op: str = "UNIDIRECTIONAL_SEQUENCE_LSTM") -> Node:
    steps = 1 if op == "LSTM" else 3
    return case(np.random.default_rng(0), Form(kind, (2, steps, 5, 6), 1.0, outputs, frozenset(flags.split()), op)).node


def of(op: str, number: int) -> Node:
    return list(cases_of(op).values())[number].node


LSTM, INTEGER = lstm("FLOAT32"), lstm("INT8", "norm peephole", 4)
COUPLED, SEEN, NORMED = lstm("FLOAT32", "coupled"), lstm("FLOAT32", "peephole"), lstm("HYBRID", "norm")
BOTH, LINKED = of("BIDIRECTIONAL_SEQUENCE_LSTM", 0), of("BIDIRECTIONAL_SEQUENCE_LSTM", 4)
WIDE = lstm("INT16")
RNN, RNNS, HYBRID_RNN = of("RNN", 1), of("BIDIRECTIONAL_SEQUENCE_RNN", 4), of("RNN", 6)
BASIC, BASIC_UINT8 = of("LSTM", 0), of("LSTM", 2)

REFUSED: list[tuple[Node, Change, type[TwinferError], str]] = [
    (LSTM, lambda n: replace(n, inputs=n.inputs[:21]), ModelError, "21 inputs, not 20 or 24"),
    (LSTM, without(2), ModelError, "input 2 is missing"),
    (LSTM, without(13), ModelError, "input 13 is missing"),
    (LSTM, without(5), ModelError, "input 5 is missing"),
    (LSTM, at(0, shape=(2, 5)), ModelError, "three dimensions"),
    (LSTM, at(3, shape=(6, 4)), ModelError, "the shape [6, 5]"),
    (LSTM, at(7, shape=(6, 6, 1)), ModelError, "the shape [6, 6]"),
    (LSTM, at(8, shape=(6, 4), data=np.zeros((6, 4), np.float32)), ModelError, "the shape [6, 4]"),
    (LSTM, at(15, shape=(5,)), ModelError, "the shape [6]"),
    (LSTM, at(HIDDEN, variable=False), ModelError, "must be a variable"),
    (LSTM, at(CELL, shape=(2, 5)), ModelError, "must have 12 elements"),
    (LSTM, at(CELL, type="FLOAT16"), UnsupportedOperatorError, "FLOAT16"),
    (LSTM, at(1, type="INT8", data=np.zeros((6, 5), np.int8)), UnsupportedOperatorError, "INT8"),
    (LSTM, options(cell_clip=-1.0), ModelError, "cell_clip -1.0"),
    (LSTM, options(proj_clip=float("nan")), ModelError, "proj_clip nan"),
    (LSTM, options(proj_clip=float("inf")), ModelError, "proj_clip inf"),
    (LSTM, at(8, shape=(6, 0)), ModelError, "no units or outputs"),
    (LSTM, options(fused_activation_function="SIGN_BIT"), UnsupportedOperatorError, "SIGN_BIT"),
    (LSTM, put(17, floats(6)), ModelError, "belongs to a projection"),
    (LSTM, put(10, floats(6)), ModelError, "some gates have peephole weights"),
    (LSTM, put(21, floats(6)), ModelError, "some gates have norm factors"),
    (COUPLED, put(12, floats(6)), ModelError, "belongs to an input gate"),
    (COUPLED, put(5, floats(6, 6)), ModelError, "belongs to an input gate"),
    (SEEN, without(11), ModelError, "some gates have peephole weights"),
    (SEEN, at(9, shape=(5,)), ModelError, "the shape [6]"),
    (NORMED, without(23), ModelError, "some gates have norm factors"),
    (NORMED, at(6, quant=quant(0.1, 1)), ModelError, "zero point of 0"),
    (NORMED, at(6, quant=quant(float("nan"))), ModelError, "not positive"),
    (NORMED, at(6, shape=(6,), data=np.zeros(6, np.int8)), UnsupportedOperatorError, "diagonal"),
    (INTEGER, lambda n: replace(n, extra={}), UnsupportedOperatorError, "5 intermediate tensors, not 0"),
    (INTEGER, intermediates(12), UnsupportedOperatorError, "5 intermediate tensors, not 12"),
    (INTEGER, intermediates(5, quant=None), ModelError, "no quantisation"),
    (INTEGER, intermediates(5, quant=quant(0.0)), ModelError, "no usable scale"),
    (INTEGER, intermediates(5, quant=quant(0.1, 200)), ModelError, "zero point 200"),
    (INTEGER, at(CELL, quant=quant(2.0**-8)), UnsupportedOperatorError, "2**-15 to 2**-9"),
    (INTEGER, at(CELL, quant=quant(2.0**-16)), UnsupportedOperatorError, "2**-15 to 2**-9"),
    (INTEGER, at(HIDDEN, quant=quant(0.3)), ModelError, "quantised alike"),
    (INTEGER, at(20, quant=quant(2.0**17)), UnsupportedOperatorError, "2**17"),
    (INTEGER, at(11, quant=quant(0.1, 3)), ModelError, "zero point of 0"),
    (INTEGER, options(fused_activation_function="RELU"), UnsupportedOperatorError, "must be TANH"),
    (WIDE, at(0, quant=quant(8e-5, 1)), UnsupportedOperatorError, "zero points of 0, as int16"),
    (WIDE, put(20, replace(floats(6), name="norm")), ModelError, "some gates have norm factors"),
    (WIDE, without(1, 5, 12), UnsupportedOperatorError, "only a sequence LSTM with four gates"),
    (lstm("FLOAT32", op="LSTM"), options(kernel_type="OTHER"), ModelError, "kernel_type is OTHER"),
    (lstm("FLOAT32", op="LSTM"), at(0, shape=(2, 1, 5)), ModelError, "two dimensions"),
    (BASIC, at(1, shape=(1, 5)), ModelError, "the shape"),
    (BASIC, at(4, variable=False), ModelError, "must be a variable"),
    (BASIC, lambda n: replace(n, outputs=n.outputs[:1]), ModelError, "5 inputs and 4 outputs"),
    (BASIC_UINT8, at(0, quant=quant(0.01, 128)), UnsupportedOperatorError, "1/128"),
    (BASIC_UINT8, at(4, quant=quant(2.0**-12)), UnsupportedOperatorError, "1/2048"),
    (BASIC_UINT8, at(3, quant=quant(1e9)), UnsupportedOperatorError, "no multiplier"),
    (BOTH, lambda n: replace(n, inputs=n.inputs[:40]), ModelError, "40 inputs, not 48"),
    (BOTH, at(0, type="INT8"), UnsupportedOperatorError, "INT8"),
    (BOTH, at(37, shape=(1, 5)), ModelError, "must have 6 elements"),
    (LINKED, without(39), ModelError, "which is missing"),
    (LINKED, without(44, 45, 46, 47), ModelError, "one direction has weights"),
    (LINKED, without(42), ModelError, "some gates have weights of the other input"),
    (LINKED, at(39, shape=(3, 2, 5)), ModelError, "the shape [4, 2, 5]"),
    (RNN, lambda n: replace(n, inputs=n.inputs[:4]), ModelError, "4 inputs, not 5"),
    (RNN, at(2, shape=(5, 4)), ModelError, "the shape [5, 5]"),
    (RNN, at(4, variable=False), ModelError, "must be a variable"),
    (RNN, options(fused_activation_function="SIGN_BIT"), UnsupportedOperatorError, "SIGN_BIT"),
    (HYBRID_RNN, at(1, quant=quant(0.1, 1)), ModelError, "zero point of 0"),
    (RNNS, without(9), ModelError, "which is missing"),
    (RNNS, at(11, shape=(3, 6)), ModelError, "the shape [3, 7]"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "change", "error", "part"), REFUSED, ids=range(len(REFUSED)))
def test_one_difference_is_refused(node: Node, change: Change, error: type[TwinferError], part: str) -> None:
    assert infer_node(node)
    with pytest.raises(error) as caught:
        infer_node(change(node))
    assert node.op in str(caught.value)
    assert part in str(caught.value)
