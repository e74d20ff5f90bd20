"""ONNX's own node tests of the operators that are imported: their data, their results."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.case import node as node_tests
from onnx.backend.test.case.test_case import TestCase as Case
from onnx_tools import compare, run

from twinfer.converter.onnx import read_onnx
from twinfer.converter.onnx.read import OPSETS
from twinfer.runtime.errors import UnsupportedOperatorError

OPERATORS = [
    "Abs",
    "Add",
    "ArgMax",
    "ArgMin",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "DepthToSpace",
    "DequantizeLinear",
    "Div",
    "Dropout",
    "Elu",
    "Exp",
    "Expand",
    "Flatten",
    "GRU",
    "Gather",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LSTM",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "MatMul",
    "MatMulInteger",
    "Max",
    "MaxPool",
    "Mean",
    "Min",
    "Mul",
    "Neg",
    "PRelu",
    "Pad",
    "Pow",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "RNN",
    "Reciprocal",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Resize",
    "Selu",
    "Shape",
    "Sigmoid",
    "Size",
    "Slice",
    "Softmax",
    "Softsign",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "Tanh",
    "Tile",
    "Transpose",
    "Unsqueeze",
    "Where",
]

#: Operators all of whose inputs come at run time here; of the others input 0 does, and the rest are initializers.
ALL_INPUTS = ["Add", "Concat", "Div", "Gemm", "MatMul", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum", "Where"]
#: Operators whose inputs are all initializers: what depends on values is known ahead only.
NO_INPUTS = ("ConstantOfShape",)

#: Tests that are refused, and why.
REFUSED = {
    r"_3d_|_3d$": "TFLite has no three-dimensional pooling, and no transposed convolution",
    r"training": "training mode: models are read for inference",
    r"maxpool_with_argmax": "MAX_POOL_2D does not tell indices",
    r"_u?int(16|32|64)$|_float(16|64)$|types_.*uint": "TFLite's arithmetic lacks the type",
    r"(add|sub|mul|div)_u?int8$": "arithmetic of bytes is that of quantised numbers in TFLite",
    r"pow_types_int(32|64)_": "powers that are rounded to integers",
    r"tf_crop_and_resize": "the values outside the image have no place in RESIZE_*",
    r"identity_(sequence|opt)": "sequences and optional values",
    r"FLOAT8|FLOAT4|INT2|INT4|BFLOAT16|DOUBLE|FLOAT16|e4m3|e5m2|e8m0|e2m1|u?int[24](_|$)": "TFLite's kernels lack the type",
    r"blocked": "TFLite has one scale a tensor or channel",
    r"quantizelinear_axis": "activations quantised per channel",
    r"quantizelinear_uint16": "TFLite has no uint16 quantisation",
}

#: Tests that TFLite's kernels themselves answer otherwise.
DIFFERENT = {
    "test_reduce_max_empty_set": "the least float instead of minus infinity",
    "test_reduce_min_empty_set": "the greatest float instead of infinity",
}

#: Expected values that are written with few digits.
ROUNDED = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3}


@cache
def modules() -> dict[str, str]:
    """Module of ONNX's tests by operator in lower case; importing one makes its tests."""
    return {m.name.replace("_", ""): m.name for m in pkgutil.iter_modules(node_tests.__path__)}


def cases(op: str) -> list[Case]:
    with np.errstate(all="ignore"):
        importlib.import_module(f"{node_tests.__name__}.{modules()[op.lower()]}")
    found = [case for case in node_tests._NodeTestCases if [n.op_type for n in case.model.graph.node] == [op]]
    assert found, f"{op} has no tests"
    return found


def array(value: Any) -> np.ndarray:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def prepared(case: Case, op: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with all inputs but those that come at run time as initializers, in an opset that is read."""
    model, feeds = onnx.ModelProto(), {}
    model.CopyFrom(case.model)
    inputs = list(model.graph.input)
    del model.graph.input[:]
    at_run_time = 0 if op in NO_INPUTS else len(inputs) if op in ALL_INPUTS else 1
    for i, (value, data) in enumerate(zip(inputs, case.data_sets[0][0], strict=True)):
        if i < at_run_time:
            model.graph.input.append(value)
            feeds[value.name] = data if isinstance(data, list) else array(data)
        else:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array(data), value.name))
    for opset in model.opset_import:
        opset.version = min(max(opset.version, OPSETS[0]), OPSETS[-1])
    return model, feeds


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("op", OPERATORS)
def test_as_onnx_says(op: str) -> None:
    for case in cases(op):
        model, feeds = prepared(case, op)
        if any(re.search(pattern, case.name) for pattern in REFUSED):
            with pytest.raises(UnsupportedOperatorError):
                read_onnx(model)
        elif case.name not in DIFFERENT:
            got = run(read_onnx(model), feeds)
            want = [array(value) for value in case.data_sets[0][1]]
            try:
                compare(got, want, ROUNDED.get(case.name, 1e-5))
            except AssertionError as error:
                raise AssertionError(f"{case.name}: {error}") from None
