"""The whole pipeline over real models: the same outputs, integers bit by bit."""

from __future__ import annotations

from typing import Any

import pytest
from passes_tools import assert_same

from twinfer.converter.passes import run
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.target import HOST
from twinfer.runtime.write.tflite import write

pytestmark = pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")


def check_model(model: Any) -> None:
    """Models that twinfer does not plan are skipped: nothing can be compared."""
    try:
        graph = infer_shapes(read_file(model.path))
        make_plan(graph, HOST)
    except TwinferError as error:
        pytest.skip(f"not planned: {error}")
    changed = run(graph)
    assert len(changed.nodes) <= len(graph.nodes)
    assert_same(graph, infer_shapes(read(write(changed))))


@pytest.mark.corpus("app")
def test_applications(corpus_model: Any) -> None:
    check_model(corpus_model)


@pytest.mark.corpus("op", "derived", sample=60)
def test_operators(corpus_model: Any) -> None:
    check_model(corpus_model)
