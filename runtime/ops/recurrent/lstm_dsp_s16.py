"""UNIDIRECTIONAL_SEQUENCE_LSTM of int16 on the DSP extension: kernels_c/recurrent/lstm_dsp.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.packing import FOURS
from twinfer.runtime.ops.isa.dsp import fours_s16
from twinfer.runtime.ops.isa.short import need_words
from twinfer.runtime.ops.recurrent._lstm_s8 import call_of
from twinfer.runtime.ops.recurrent._lstm_short import gates_of
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    lstm, gates = gates_of(node)
    matrices = [np.stack(w, 1) for w in zip(*((gate.weights, gate.recurrent) for gate in gates), strict=True)]
    for w in matrices:
        need_words(w, np.zeros(w.shape[:-1], np.int64))
    packed = [weights(fours_s16(w.reshape(-1, w.shape[2])), FOURS) for w in matrices]
    starts = bias(np.stack([gate.bias for gate in gates], 1).astype(np.int64), "[units][gate]")
    scratch = 2 * sum(-(-w.shape[2] // 4) * 4 for w in matrices)
    return call_of(lstm, "tw_lstm_dsp_s16", (*packed, starts), scratch)


VARIANT = Variant("dsp", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"dsp"}), lower, ("INT16",))
