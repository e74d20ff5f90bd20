"""How far engines may be apart in RNNs and LSTMs of float values.

Outputs lie in -1..1, where sums of wide rows may be far larger, and so is what rounding loses in them. With weights of
int8 the state is quantised at every step, too. States differ by a few units in the last place (``tanhf`` of this and
that library), and one that lies at a half becomes the next code: the sums it goes into differ by a step times a weight.
Ends of the range, where tanh saturates, are such halves, many at once.
"""

from __future__ import annotations

from twinfer.runtime.graph import Node, Tensor

RNNS = "RNN UNIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_RNN"
LSTMS = "LSTM UNIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_LSTM"

#: Codes from 0 to the largest state.
CODES = 127

#: Values of a row for which the tolerance of a case is enough.
WIDTH = 8


def loosened(node: Node, tolerance: float) -> float:
    """The tolerance of a node, relative to its largest output: more in wide rows, and what one other code of every
    state makes in all its steps."""
    if node.op not in f"{RNNS} {LSTMS}".split() or node.input(0).type != "FLOAT32":
        return tolerance
    rows = sum(_largest_row(t) for t in node.inputs if t is not None and t.type == "INT8")
    x = node.input(0)
    steps = 1 if len(x.shape) == 2 else x.shape[0 if node.options.get("time_major") else 1]
    width = max(t.shape[-1] for t in node.inputs if t is not None and t.shape)
    return max(tolerance * max(1, width / WIDTH), steps * rows / CODES)


def _largest_row(weights: Tensor) -> float:
    """The largest sum of magnitudes of a row."""
    least = weights.shape[-1] * 127.0 if weights.data is None else float(abs(weights.data.astype(int)).sum(-1).max())
    return least * weights.scale
