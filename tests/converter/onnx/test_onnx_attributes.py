"""Every importer against ONNX Runtime: attributes left out and set, together, over odd ranks and all opsets."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import onnx
import pytest
from hypothesis import HealthCheck, assume, given, settings
from onnx import helper
from onnx_draws import DRAWS, Draw, Drawn
from onnx_tools import by_onnxruntime, compare, model, run

from twinfer.converter.convert import convert
from twinfer.converter.onnx import read_onnx
from twinfer.runtime.errors import TwinferError, UnsupportedOperatorError


def proto_of(drawn: Drawn) -> onnx.ModelProto:
    names = drawn.order or (*drawn.inputs, *drawn.constants)
    while not names[-1]:
        names = names[:-1]
    node = helper.make_node(drawn.op, list(names), list(drawn.outputs), domain=drawn.domain, **drawn.attributes)
    return model([node], drawn.inputs, drawn.constants, drawn.outputs, drawn.opset)


def refusal(proto: onnx.ModelProto) -> str:
    """Why the model is refused, by its importer or as something that cannot run; "" if it is not."""
    try:
        convert(proto)
    except UnsupportedOperatorError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("make", DRAWS, ids=lambda make: make.__name__)
def test_as_onnxruntime(make: Callable[[Draw], Drawn]) -> None:
    """What ONNX Runtime runs gives the same here, or is refused where the draw says so."""
    ran = 0

    @settings(
        max_examples=DRAWS[make],
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal ran
        drawn = make(Draw(data))
        proto = proto_of(drawn)
        try:
            wanted = by_onnxruntime(proto, drawn.inputs)
        except Exception:  # what it refuses differs between its versions
            assume(False)
        ran += 1
        if drawn.refused and (why := refusal(proto)):
            assert drawn.refused in why
            return
        try:
            compare(run(read_onnx(proto), drawn.inputs), wanted, drawn.tolerance)
        except (AssertionError, TwinferError) as error:
            raise AssertionError(f"{drawn}: {error}") from None

    check()
    assert 2 * ran >= DRAWS[make], "ONNX Runtime refuses most of what is drawn"
