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
from twinfer.converter.onnx.versions import OPSETS
from twinfer.runtime.errors import TwinferError, UnsupportedOperatorError

OPERATORS = """
Abs Add ArgMax ArgMin AveragePool BatchNormalization BitCast Cast Celu Clip Compress Concat Constant ConstantOfShape
Conv ConvInteger ConvTranspose CumSum DepthToSpace DequantizeLinear Div Dropout Einsum Elu Exp Expand EyeLike Flatten
Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool GroupNormalization GRU HardSigmoid HardSwish
Identity InstanceNormalization LayerNormalization LeakyRelu Log LogSoftmax LSTM MatMul MatMulInteger Max MaxPool Mean
Min Mish Mul Neg OneHot Pad Pow PRelu QLinearConv QLinearMatMul QuantizeLinear Reciprocal ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RNN
ScatterElements ScatterND Selu Shape Sigmoid Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub
Sum Swish Tanh TensorScatter Tile TopK Transpose Trilu Unsqueeze Where
""".split()  # noqa: SIM905

#: Operators with all inputs at run time here. Others get input 0 at run time; the rest are initializers.
ALL_INPUTS = """
Add Concat Div Einsum Gather GatherElements GatherND Gemm MatMul Max Mean Min Mul Pow ReverseSequence ScatterElements
ScatterND Sub Sum TensorScatter Where
""".split()  # noqa: SIM905
#: Operators with initializers only: their shapes depend on values, which must be known ahead.
NO_INPUTS = ("ConstantOfShape",)

#: Operators that ONNX tests in float64, here in float32.
IN_DOUBLES = ("CumSum", "Einsum", "ReduceLogSumExp")

#: Tests that are refused: operators (a pattern), test names (a pattern), reason.
REFUSED = (
    ("Add|Sub|Mul|Div", r"_u?int(8|16)$", "TFLite's arithmetic has 8 and 16 bits for quantised numbers only"),
    ("Add|Sub|Mul|Div|Max|Min", r"_uint(16|32|64)$|_float(16|64)$", "TFLite's arithmetic lacks the type"),
    ("Pow", r"types_float32_uint|types_int64|types_int32_float32", "TFLite has powers of integers in int32 only"),
    ("BitCast|EyeLike|TopK", r"with_dtype|float64|_uint(16|32|64)", "TFLite's kernels lack the type"),
    ("Compress|ReverseSequence", r"bfloat16", "TFLite's kernels lack the type"),
    ("Reduce.*", r"empty_set", "reductions of nothing"),
    ("BatchNormalization|Dropout", r"training", "training mode: models are read for inference"),
    ("Cast", r"", "ONNX tries types that TFLite's kernels lack only; see onnx_draws.py for the others"),
    ("Identity", r"sequence|opt", "sequences and optional values"),
    ("DequantizeLinear|QuantizeLinear", r"e4m3|e5m2|e2m1|int[24]$", "TFLite's kernels lack the type"),
    ("DequantizeLinear|QuantizeLinear", r"blocked", "TFLite has one scale per tensor or channel"),
    ("QuantizeLinear", r"axis|uint16", "TFLite quantises activations per tensor, and not to uint16"),
    ("DequantizeLinear", r"uint16", "TFLite's kernels lack the type"),
    ("MatMul|Celu|Einsum", r"float16", "TFLite's kernels lack the type"),
    ("CumSum", r"int32", "it is a product of floats"),
    ("Einsum", r"batch_diagonal", "a letter twice in one operand"),
)

#: Tests that cannot run here -> why.
SKIPPED = {
    "test_spacetodepth_dcr_mode_example": "an attribute of opset 28",
    "test_spacetodepth_crd_mode_example": "an attribute of opset 28",
    "test_resize_downsample_scales_linear_align_corners": "corners are not aligned; ONNX Runtime and PyTorch do",
    "test_resize_downsample_scales_cubic_align_corners": "corners are not aligned; ONNX Runtime and PyTorch do",
    "test_onehot_with_bfloat16_values": "halves are computed in float32 here",
}

#: Expected values that are written with few digits.
ROUNDED = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3}


@cache
def modules() -> dict[str, str]:
    """Operator in lower case -> module of ONNX's tests. Importing a module creates its tests."""
    return {m.name.replace("_", ""): m.name for m in pkgutil.iter_modules(node_tests.__path__)}


def cases(op: str) -> list[Case]:
    with np.errstate(all="ignore"):
        importlib.import_module(f"{node_tests.__name__}.{modules()[op.lower()]}")
    same = [case for case in node_tests._NodeTestCases if [n.op_type for n in case.model.graph.node] == [op]]
    assert same, f"{op} has no tests"
    return same


def array(value: Any) -> np.ndarray:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def prepared(case: Case, op: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model in an opset that is read, with initializers for all inputs but those that come at run time."""
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
    if op in IN_DOUBLES:
        feeds = {name: narrowed(value) for name, value in feeds.items()}
        for value in model.graph.input:
            value.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(feeds[value.name].dtype)
    for opset in model.opset_import:
        opset.version = min(max(opset.version, OPSETS[0]), OPSETS[-1])
    return model, feeds


def narrowed(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float32) if value.dtype == np.float64 else value


def refused(op: str, name: str) -> bool:
    return any(re.fullmatch(ops, op) and re.search(pattern, name) for ops, pattern, _ in REFUSED)


def results(case: Case, op: str) -> list[np.ndarray]:
    arrays = [array(value) for value in case.data_sets[0][1]]
    return [narrowed(value) for value in arrays] if op in IN_DOUBLES else arrays


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("op", OPERATORS)
def test_as_onnx_says(op: str) -> None:
    for case in cases(op):
        model, feeds = prepared(case, op)
        if refused(op, case.name):
            with pytest.raises(UnsupportedOperatorError):
                read_onnx(model)
        elif case.name not in SKIPPED:
            try:
                compare(run(read_onnx(model), feeds), results(case, op), ROUNDED.get(case.name, 1e-5))
            except (AssertionError, TwinferError) as error:
                raise AssertionError(f"{case.name}: {error}") from None
