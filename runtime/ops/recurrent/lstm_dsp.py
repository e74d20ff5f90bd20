"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 on the DSP extension: kernels_c/recurrent/lstm_dsp.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.packing import ENDS, FOURS
from twinfer.runtime.ops.isa.dsp import fours, most_of, need_short
from twinfer.runtime.ops.recurrent._lstm_s8 import call_of, params_of
from twinfer.runtime.ops.recurrent._lstm_short import gates_of
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    lstm, gates = gates_of(node)
    params: Any = params_of(lstm)
    over_x, over_h = (np.stack(w, 1) for w in zip(*((gate.weights, gate.recurrent) for gate in gates), strict=True))
    starts = [np.stack(values, 1) for values in zip(*((gate.bias, gate.start) for gate in gates), strict=True)]
    for w, start, shifts in zip((over_x, over_h), starts, (params["shift"], params["hidden_shift"]), strict=True):
        for most, shift in zip(most_of(w, start).max(0), shifts, strict=True):
            need_short(int(most), shift)
    packed = [weights(fours(w.reshape(-1, w.shape[2])), FOURS) for w in (over_x, over_h)]
    ends = per_channel((2 * np.concatenate(starts, 1)).astype(np.int32), ENDS)
    scratch = sum(-(-w.shape[2] // 4) * 4 for w in (over_x, over_h))
    return call_of(lstm, "tw_lstm_dsp_s8", (*packed, ends), scratch)


VARIANT = Variant("dsp", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"dsp"}), lower, ("INT8",))
