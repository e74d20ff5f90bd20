"""``from_torch``: whole networks against torch itself, float and quantised, and what it refuses."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs

torch = needs("torch", "onnxscript")

from onnx_tools import compare, run  # noqa: E402
from torch import nn  # noqa: E402
from torch_nets import NETS, trained  # noqa: E402

import twinfer  # noqa: E402
from twinfer.runtime.graph import Graph  # noqa: E402


@cache
def exported(name: str) -> tuple[Any, tuple[Any, ...], Graph]:
    """Network, inputs, and what ``from_torch`` makes of them: an export takes a second."""
    net, inputs = trained(NETS[name])
    return net, inputs, twinfer.from_torch(net, inputs)


def by_torch(net: Any, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    with torch.no_grad():
        result = net(*inputs)
    return [r.numpy() for r in (result if isinstance(result, tuple) else (result,))]


def fed(graph: Graph, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
    return {t.name: x.numpy() for t, x in zip(graph.inputs, inputs, strict=True)}


@pytest.mark.parametrize("name", NETS)
def test_float(name: str) -> None:
    net, inputs, graph = exported(name)
    compare(run(twinfer.convert(graph), fed(graph, inputs)), by_torch(net, inputs), 2e-5)
