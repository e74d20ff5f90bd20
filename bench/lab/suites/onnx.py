"""ONNX's backend tests: of nodes, of function bodies, of models that PyTorch exported once, and simple models."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from twinfer.bench.lab.suites.suite import TOLERANCE, Case, Trial
from twinfer.converter.convert import convert
from twinfer.converter.emit.emitter import WIDER
from twinfer.runtime.errors import ModelWarning, UnsupportedOperatorError
from twinfer.runtime.graph import Array

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

#: Operator -> its inputs that decide shapes, or which values are taken: models have these as constants.
DECIDING: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("Reshape", "Expand", "Tile", "Split", "SplitToSequence", "Squeeze", "Unsqueeze", "TopK"), (1,)),
    **dict.fromkeys(("OneHot", "CenterCropPad", "AffineGrid", "CumSum", "CumProd", "Trilu", "Compress"), (1,)),
    **dict.fromkeys(("ConstantOfShape", "HannWindow", "HammingWindow", "BlackmanWindow", "Loop", "If"), (0,)),
    **dict.fromkeys(("MelWeightMatrix", "Range"), (0, 1, 2, 3, 4)),
    **dict.fromkeys(("Col2Im", "DFT", "Dropout"), (1, 2)),
    "MaxUnpool": (2,),
    "NonMaxSuppression": (2, 3, 4),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Upsample": (1,),
}
#: The largest error where what is expected was computed in halves: several of their steps.
HALVES: Mapping[int, float] = {onnx.TensorProto.FLOAT16: 2e-3, onnx.TensorProto.BFLOAT16: 1.6e-2}

REDUCTIONS = re.compile(r"Reduce(L1|L2|LogSum|LogSumExp|Max|Mean|Min|Prod|Sum|SumSquare)$")

#: What is no model that infers from tensors -> operators of it, or parts of tests' names.
BESIDE = {
    "training": r"Gradient|Adagrad|Adam|Momentum|_training|_train_",
    "random": r"Bernoulli|Random|Multinomial|Dropout\b.*_seed",
    "image": r"ImageDecoder",
    "string": r"String|RegexFullMatch|LabelEncoder|TfIdf",
    "sequence": r"Sequence|Optional",
}


#: Tests whose expected values are written with few digits.
ROUNDED = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3}


#: Tests that stay wrong -> why.
KNOWN = {
    r"attention_4d_with_past.*_bias_[34]d_mask_causal": (
        "output 3 has -3.4e38 for -inf, as TFLite's ADD bounds its results; SOFTMAX makes the same of both"
    ),
    r"resize_downsample_scales_(cubic|linear)_align_corners": (
        "the result is ONNX Runtime's and PyTorch's, where the last element lies on the input's last"
    ),
    r"operator_add(_.*broadcast|constant)": "doubles beyond 3.4e38, where floats end: doubles become floats",
}


def cases() -> Iterator[Case]:
    """All tests, with the operator that each is of. Of a function's body it is the operator with that body."""
    subjects: dict[str, str] = {}
    with np.errstate(all="ignore"):
        tests = [(kind, test) for kind in KINDS for test in load_model_tests(kind=kind)]
    for kind, test in sorted(tests, key=lambda each: "_expanded" in each[1].name):
        model, data = test.model, test.data_sets
        if model is None or data is None:
            folder = Path(str(test.model_dir))
            model, data = onnx.load(str(folder / "model.onnx")), [_stored(folder)]
        base = test.name.removeprefix("test_").partition("_expanded")[0]
        operators = {node.op_type for node in model.graph.node if node.op_type not in ("Constant", "Identity")}
        subject = subjects.setdefault(base, operators.pop() if len(operators) == 1 else base)
        tolerance = TOLERANCE if test.rtol == 1e-3 else max(TOLERANCE, test.rtol)
        kinds = {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
        tolerance = max(tolerance, ROUNDED.get(test.name, 0), *(HALVES.get(kind, 0) for kind in kinds))
        convert = partial(_convert, model, data[0], tolerance)
        known = next((why for name, why in KNOWN.items() if re.search(name, test.name)), "")
        name = f"{kind}/{test.name.removeprefix('test_')}"
        yield Case(name, subject, convert, _beside(test.name, subject, model), known)


def _stored(folder: Path) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of a test that is kept in files."""

    def tensors(kind: str) -> list[onnx.TensorProto]:
        files = (folder / "test_data_set_0").glob(f"{kind}_*.pb")
        return [onnx.load_tensor(str(file)) for file in sorted(files, key=lambda path: int(path.stem.split("_")[1]))]

    return tensors("input"), tensors("output")


def _beside(name: str, subject: str, model: onnx.ModelProto) -> str:
    """Why a test does not count; "" if it does."""
    operators = " ".join(node.op_type for node in model.graph.node)
    for reason, pattern in BESIDE.items():
        if re.search(pattern, f"{name} {subject} {operators}"):
            return reason
    values = (*model.graph.input, *model.graph.output)
    if any(value.type.WhichOneof("value") != "tensor_type" for value in values):
        return "sequence"
    types = {value.type.tensor_type.elem_type for value in values} | {t.data_type for t in model.graph.initializer}
    types |= {a.i for n in model.graph.node for a in n.attribute if a.name in ("to", "output_dtype", "dtype")}
    names = " ".join(onnx.TensorProto.DataType.Name(t) for t in types)
    return "string" if "STRING" in names else "float8" if re.search(r"FLOAT[468]E", names) else ""


def _convert(model: onnx.ModelProto, data: tuple[Sequence[Any], Sequence[Any]], tolerance: float) -> Trial:
    """The model with its test's shapes and deciding inputs, and the test's inputs and outputs."""
    arrays, expected = ([_array(value) for value in values] for values in data)
    stored = {tensor.name for tensor in model.graph.initializer}
    values = [v for v in model.graph.input if v.name not in stored or len(arrays) == len(model.graph.input)]
    inputs = dict(zip((value.name for value in values), arrays, strict=False))
    constants = {name: inputs.pop(name) for name in _deciding(model) & set(inputs)}
    open_ones = [v.name for v in values if not all(d.HasField("dim_value") for d in v.type.tensor_type.shape.dim)]
    shapes = {name: inputs[name].shape for name in open_ones if name in inputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        graph = convert(model, shapes=shapes, constants=constants)
    feeds = {t.name: inputs[t.name].astype(t.dtype) for t in graph.inputs}  # halves and doubles are float32 there
    return Trial(graph, feeds, expected, tolerance)


def _deciding(model: onnx.ModelProto) -> set[str]:
    """Names of what decides shapes, by the nodes that read it."""
    found = set[str]()
    for node in model.graph.node:
        places = (1,) if REDUCTIONS.match(node.op_type) else DECIDING.get(node.op_type, ())
        found.update(node.input[i] for i in places if i < len(node.input))
    return found


def _array(value: Any) -> Array:
    if isinstance(value, list | tuple | dict) or value is None:
        raise UnsupportedOperatorError("sequences and optional values")
    array = onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    return array.astype(WIDER[array.dtype.name]) if array.dtype.name in WIDER else array
