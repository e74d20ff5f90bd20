"""nn.LSTM with proj_size, which ONNX's LSTM does not have, and torch.onnx writes as if it had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from twinfer.converter.torch.rewrite import Rule
from twinfer.runtime.errors import UnsupportedOperatorError


def projected_lstm(
    x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool, *, known: Sequence[Any],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Layers without projection, whose outputs are projected behind them: the recurrent weights become W_hh @ W_hr,
    which does the same with every hidden state but the first, as that is no projection. So the first must be 0."""
    first, cells = known[0][0], hx[1]
    if first is None or first.any():
        raise UnsupportedOperatorError(
            f"nn.LSTM(proj_size={hx[0].shape[-1]}) with a first hidden state that is not 0: "
            "call it without (h_0, c_0), or leave proj_size out and put an nn.Linear behind it"
        )
    step, time, directions = 5 if has_biases else 3, 1 if batch_first else 0, 1 + bidirectional
    hidden, ends = [], []
    for layer in range(num_layers):
        parts = []
        for way in range(directions):
            at = layer * directions + way
            own = list(params[at * step : (at + 1) * step])
            projection = own.pop()
            own[1] = own[1] @ projection
            cell = cells[at : at + 1]
            given = x.flip(time) if way else x
            result = torch.ops.aten.lstm.input(
                given, [torch.zeros_like(cell), cell], own, has_biases, 1, 0.0, False, False, batch_first
            )
            y, h, c = (result[0] @ projection.T, result[1] @ projection.T, result[2])
            parts.append(y.flip(time) if way else y)
            hidden.append(h)
            ends.append(c)
        x = torch.cat(parts, -1) if bidirectional else parts[0]
    return x, torch.cat(hidden, 0), torch.cat(ends, 0)


def _is_projected(x: Tensor, hx: Sequence[Tensor], *_: Any) -> bool:
    return int(hx[0].shape[-1]) != int(hx[1].shape[-1])


RULES = {"lstm.input": Rule(projected_lstm, _is_projected, knows=(1,))}
