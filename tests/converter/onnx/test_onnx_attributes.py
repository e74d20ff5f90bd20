"""Every importer against ONNX Runtime: attributes left out and set, together, over odd ranks and all opsets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx_draws import (
    DRAWS,
    Draw,
    Drawn,
    concat,
    conv,
    conv_transpose,
    einsum,
    gemm,
    indexed,
    layout,
    matmul,
    one_hot,
    pad,
    proto_of,
    recurrent,
    resize,
    resize_lines,
    tile,
)  # fmt: skip
from onnx_tools import by_onnxruntime, compare, floats, run

from twinfer.converter.convert import convert
from twinfer.converter.onnx import read_onnx
from twinfer.converter.onnx.fold import GROWING, elements
from twinfer.runtime.errors import TwinferError, UnsupportedOperatorError


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
    for seed in range(DRAWS[make]):
        drawn = make(Draw(seed))
        proto = proto_of(drawn)
        try:
            wanted = by_onnxruntime(proto, drawn.inputs)
        except Exception:  # what it refuses differs between its versions
            continue
        ran += 1
        if drawn.refused and (why := refusal(proto)):
            assert drawn.refused in why, drawn
            continue
        try:
            compare(run(read_onnx(proto), drawn.inputs), wanted, drawn.tolerance)
        except (AssertionError, TwinferError) as error:
            raise AssertionError(f"seed {seed}: {drawn}: {error}") from None
    assert 2 * ran >= DRAWS[make], "ONNX Runtime refuses most of what is drawn"


def test_recurrent_layers_with_batches_first() -> None:
    """ONNX Runtime has them with time first alone: inputs, states and outputs are turned."""
    for seed in range(24):
        drawn = recurrent(Draw(seed))
        names = ("y", "z", "c_last")[: 3 if drawn.op == "LSTM" else 2]
        y, *states = by_onnxruntime(proto_of(replace(drawn, outputs=names)), drawn.inputs)
        batched = [y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)]
        inputs, constants = ({k: v.swapaxes(0, 1).copy() if k in "xhc" else v for k, v in values.items()}
                             for values in (drawn.inputs, drawn.constants))  # fmt: skip
        attributes = {**drawn.attributes, "layout": 1}
        turned = replace(drawn, inputs=inputs, constants=constants, attributes=attributes)
        got = run(read_onnx(proto_of(turned)), inputs)
        wanted = [value for name, value in zip(names, batched, strict=True) if name in drawn.outputs]
        compare(got, wanted, drawn.tolerance)


#: Operators of which it is known before how many elements they give; of others at least so many.
EXACT = ("Expand", "Tile", "Pad", "OneHot", "MatMul", "Gemm", "Gather", "GatherND", "Concat")
DRAWN = (layout, tile, pad, one_hot, resize, resize_lines, matmul, gemm, indexed, concat, conv, conv_transpose, einsum)


@pytest.mark.parametrize("make", DRAWN, ids=lambda make: make.__name__)
def test_how_much_constants_grow_is_known_before(make: Callable[[Draw], Drawn]) -> None:
    """Results of constants are refused where they are too many, so never fewer may be counted than come."""
    for seed in range(60):
        drawn = make(Draw(seed))
        try:
            results = by_onnxruntime(proto_of(drawn), drawn.inputs)
        except Exception:  # what it refuses differs between its versions
            continue
        values = {**drawn.inputs, **drawn.constants}
        names = drawn.order or tuple(values)
        while not names[-1]:
            names = names[:-1]
        given = [np.asarray(values[name]) if name else np.empty(0, np.int8) for name in names]
        if drawn.op not in GROWING:
            continue
        known, come = elements(drawn.op, given, drawn.attributes), sum(result.size for result in results)
        assert known == come if drawn.op in EXACT else known >= come, drawn


def check(op: str, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray], **attributes: object) -> None:
    proto = proto_of(Drawn(op, inputs, constants, attributes))
    compare(run(read_onnx(proto), inputs), by_onnxruntime(proto, inputs))


@pytest.mark.parametrize("size", [3, 4])
def test_a_window_that_would_begin_behind_the_image_is_left_out(size: int) -> None:
    """ceil_mode: three elements and one of padding in steps of three; the second window would see padding alone."""
    x = floats(np.random.default_rng(0), 1, 1, size)
    check("MaxPool", {"x": x}, {}, kernel_shape=[2], strides=[3], pads=[0, 1], ceil_mode=1)


def test_more_than_a_transposed_convolution_computes_is_refused() -> None:
    x, w = floats(np.random.default_rng(0), 1, 1, 2, 2), np.ones((1, 1, 2, 2), np.float32)
    for extent in (2, 3):
        check("ConvTranspose", {"x": x}, {"w": w}, output_shape=[extent, extent])
    proto = proto_of(Drawn("ConvTranspose", {"x": x}, {"w": w}, {"output_shape": [5, 5]}))
    with pytest.raises(UnsupportedOperatorError, match="larger than what is computed"):
        read_onnx(proto)
