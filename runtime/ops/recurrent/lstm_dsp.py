"""UNIDIRECTIONAL_SEQUENCE_LSTM on the DSP extension: kernels_c/recurrent/lstm_dsp*.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.runtime.constant import bias, per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.packing import ENDS, FOURS
from twinfer.runtime.ops.isa.dsp import fours, fours_s16, most_of, need_short
from twinfer.runtime.ops.isa.short import need_words
from twinfer.runtime.ops.recurrent._lstm_s8 import call_of, params_of
from twinfer.runtime.ops.recurrent._lstm_short import gates_of
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower_s8(node: Node, target: Target) -> Call:
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


def lower_s16(node: Node, target: Target) -> Call:
    lstm, gates = gates_of(node)
    matrices = [np.stack(w, 1) for w in zip(*((gate.weights, gate.recurrent) for gate in gates), strict=True)]
    for w in matrices:
        need_words(w, np.zeros(w.shape[:-1], np.int64))
    packed = [weights(fours_s16(w.reshape(-1, w.shape[2])), FOURS) for w in matrices]
    starts = bias(np.stack([gate.bias for gate in gates], 1).astype(np.int64), "[units][gate]")
    scratch = 2 * sum(-(-w.shape[2] // 4) * 4 for w in matrices)
    return call_of(lstm, "tw_lstm_dsp_s16", (*packed, starts), scratch)


VARIANTS = (
    Variant("dsp", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"dsp"}), lower_s8, ("INT8",)),
    Variant("dsp", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"dsp"}), lower_s16, ("INT16",)),
)
