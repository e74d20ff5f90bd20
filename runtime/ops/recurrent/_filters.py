"""SVDF with constant weights, as kernels of instruction sets read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.channels import fold_zero
from twinfer.runtime.ops.recurrent.svdf import bias_of
from twinfer.runtime.variant import present


class Filters(NamedTuple):
    """Features int8 [filters, size], time [filters, memory], and what sums begin with, zero points folded in: those of
    features, int32 [filters], and of units, int32 [units]."""

    features: Array
    time: Array
    starts: Array
    bias: Array


def filters_of(node: Node) -> Filters:
    """Declined if something is computed at run time."""
    why = "weights or the bias are computed at run time"
    features, time = (present(node.input(i).data, why) for i in (1, 2))
    units, bias = node.output.shape[1], present(bias_of(node), why)
    starts = fold_zero(features, np.zeros(len(features), np.int32), node.input(0).zero)
    return Filters(features, time, starts, fold_zero(time.reshape(units, -1), bias, node.input(4).zero))
