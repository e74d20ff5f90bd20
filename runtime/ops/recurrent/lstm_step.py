"""LSTM: one step per run; the full kernel, which has what UNIDIRECTIONAL_SEQUENCE_LSTM has, or the basic one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.recurrent import _lstm_basic, lstm
from twinfer.runtime.ops.recurrent._lstm_cases import Form, case, forms
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _is_basic(node: Node) -> bool:
    kernel = node.options.get("kernel_type", "FULL")
    need(kernel in ("FULL", "BASIC"), node, f"its kernel_type is {kernel}, not FULL or BASIC")
    return bool(kernel == "BASIC")


def infer(node: Node) -> list[Shape]:
    return _lstm_basic.infer(node) if _is_basic(node) else lstm.infer(node)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The outputs of one step from the states in ``inputs``."""
    return _lstm_basic.reference(node, inputs) if _is_basic(node) else lstm.reference(node, inputs)


def lower(node: Node, target: Target) -> Call:
    return _lstm_basic.lower(node) if _is_basic(node) else lstm.lower(node, target)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from _lstm_basic.cases(rng)
    for kind in ("FLOAT32", "HYBRID", "INT8"):
        yield case(rng, Form(kind, (2, 1, 9, 6), 1.0, op="LSTM"))
    for form in forms("LSTM", 1):
        yield case(rng, form)
    for power in (-9, -15):
        yield case(rng, Form("INT8", (2, 1, 5, 6), 0.0, 4, power=power, op="LSTM"))


OP = Op("LSTM", infer, reference, lower, cases)
