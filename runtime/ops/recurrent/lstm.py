"""UNIDIRECTIONAL_SEQUENCE_LSTM: of float values with float or int8 weights, and of int8; all of LiteRT's options.

An int8 or int16 LSTM with four gates and nothing else has TFLM's bits, others of int8 have LiteRT's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, unsupported
from twinfer.runtime.ops.recurrent import _lstm, _lstm_float, _lstm_gemmlowp, _lstm_s8
from twinfer.runtime.ops.recurrent._lstm import Lstm, Places
from twinfer.runtime.ops.recurrent._lstm_cases import Form, case, forms
from twinfer.runtime.ops.recurrent._lstm_s8 import CELL, GATES, HIDDEN
from twinfer.runtime.ops.recurrent._sequences import Layout
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

__all__ = ["CELL", "GATES", "HIDDEN", "OP", "cells", "lstm_of"]


def lstm_of(node: Node) -> Lstm:
    """The LSTM of a node with 20 or 24 inputs; ModelError for any other number."""
    need(len(node.inputs) in (20, 24), node, f"it has {len(node.inputs)} inputs, not 20 or 24")
    layout = Layout.of(node, flat=node.op == "LSTM", time_major=bool(node.options.get("time_major")))
    return Lstm(node, Places(norm=20), layout)


def infer(node: Node) -> list[Shape]:
    lstm = lstm_of(node)
    _lstm.check(lstm)
    if _is_tflms(lstm):
        _lstm_s8.check(node)
    elif lstm.kind == "integer":
        _lstm_gemmlowp.check(lstm)
    elif lstm.kind == "wide":
        raise unsupported(node, "with int16 values, only a sequence LSTM with four gates and nothing else has a kernel")
    return [lstm.layout.shape(lstm.outputs)]


def _is_tflms(lstm: Lstm) -> bool:
    """Whether TFLM takes the node, and decides its bits."""
    return lstm.kind in ("integer", "wide") and lstm.node.op != "LSTM" and _lstm_s8.is_plain(lstm)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The outputs; the first step starts from the states in ``inputs``."""
    lstm = lstm_of(node)
    if _is_tflms(lstm):
        return [_lstm_s8.reference(lstm, inputs)]
    return [(_lstm_gemmlowp if lstm.kind == "integer" else _lstm_float).reference(lstm, inputs)]


def cells(node: Node, x: Array) -> Array:
    """The cells after every step over the input x, float32 [steps, batches, units]; states start at 0."""
    inputs: list[Any] = [
        None if t is None else np.zeros(t.shape, t.dtype) if t.variable else t.data for t in node.inputs
    ]
    inputs[0] = x
    return np.array([cell for _, cell in _lstm_float.run(lstm_of(node), inputs)], np.float32)


def lower(node: Node, target: Target) -> Call:
    lstm = lstm_of(node)
    if _is_tflms(lstm):
        return _lstm_s8.lower(lstm)
    return _lstm_gemmlowp.lower(lstm) if lstm.kind == "integer" else _lstm_float.lower(lstm)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for kind in ("FLOAT32", "INT8"):
        yield case(rng, Form(kind, (1, 1, 1, 1), 10.0))
        yield case(rng, Form(kind, (1, 7, 5, 3), 0.0))
        yield case(rng, Form(kind, (2, 5, 9, 6), 1.0, options={"time_major": True}))
        yield case(rng, Form(kind, (3, 4, 33, 20), 10.0, options={"time_major": False}))
        yield case(rng, Form(kind, (1, 3, 4, 2), 1e9))
    for form in forms("UNIDIRECTIONAL_SEQUENCE_LSTM", 4):
        yield case(rng, form)
    for sizes, clip in (((1, 7, 5, 3), 0.0), ((2, 5, 9, 6), 1.0), ((3, 4, 33, 20), 10.0)):
        yield case(rng, Form("INT16", sizes, clip, options={"time_major": sizes[0] == 2}))
    yield case(rng, Form("HYBRID", (2, 3, 7, 4), 1.0))
    yield case(rng, Form("FLOAT32", (2, 3, 7, 4), 0.0, flags=frozenset(["diagonal"])))


OP = Op("UNIDIRECTIONAL_SEQUENCE_LSTM", infer, reference, lower, cases)
