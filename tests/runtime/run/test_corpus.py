"""Real models against their golden outputs: every whole application and a sample of the small ones, in both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.aot.build.compiled import CompiledModel
from twinfer.converter.convert import convert
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import TARGETS

#: Models that are refused, and why.
REFUSED = {
    "lrt_add_quantized_int8": "differ in type",  # ADD int8 + int8 -> float32: the golden shows a fault of the reference
    "lrt_simple_topk_op_runtime_k": "has no fixed shape",  # an output whose size is known at run time only
}

#: Models whose goldens are 0 by a fault of the reference: BATCH_MATMUL takes scales per column for 0.
ZERO = {"lrt_static_w8_a16_quantized_attn_vec_einsum", "lrt_static_w8_a16_quantized_q_einsum"}

#: Float results may differ from the reference by this much of the largest one (libm's exp and tanh, fused sums).
FLOAT_BOUND = 1e-6

pytestmark = pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")


#: Models whose operators keep a state that the file does not show: their samples are one stream, of one interpreter.
STREAMS = {"tflm_audio_preprocessor_int8"}


def check_golden(model: Interpreter, golden: dict[str, Any], samples: int, stream: bool = False) -> None:
    inputs, outputs = model.get_input_details(), model.get_output_details()
    for sample in range(samples):
        if sample == 0 or not stream:
            model.reset_all_variables()
        for i, details in enumerate(inputs):
            model.set_tensor(details["index"], golden[f"s{sample}_in{i}"].reshape(details["shape"]))
        model.invoke()
        for i, details in enumerate(outputs):
            want = golden[f"s{sample}_out{i}"].reshape(details["shape"])
            assert_close(model.get_tensor(details["index"]), want, f"sample {sample}, output {i}")


def assert_close(got: Any, want: Any, where: str) -> None:
    """The same integers; floats within FLOAT_BOUND."""
    if got.dtype.kind == "f":
        bound = FLOAT_BOUND * float(np.nanmax(np.abs(want), initial=0))
        np.testing.assert_allclose(got, want, rtol=0, atol=bound, err_msg=where)
    else:
        np.testing.assert_array_equal(got, want, err_msg=where)


@pytest.mark.corpus("app")
@pytest.mark.parametrize(
    "engine",
    [pytest.param(Interpreter, id="interpreted"), pytest.param(CompiledModel, id="compiled", marks=pytest.mark.deep)],
)
def test_applications(corpus_model: Any, engine: type[Interpreter]) -> None:
    model = engine(model_path=corpus_model.path)
    model.allocate_tensors()
    stream = corpus_model.path.stem in STREAMS
    check_golden(model, corpus_model.golden(), corpus_model.entry["samples"], stream)
    assert model.plan.macs == corpus_model.entry["macs"]


@pytest.mark.corpus("op", "derived")
def test_small_models_interpreted(corpus_model: Any) -> None:
    """Results are exact. No model is refused but those whose reason is known."""
    entry = corpus_model.entry
    model = Interpreter(model_path=corpus_model.path)
    if why := REFUSED.get(corpus_model.path.stem):
        with pytest.raises(UnsupportedOperatorError, match=why):
            model.allocate_tensors()
        return
    model.allocate_tensors()
    if corpus_model.path.stem in ZERO:
        assert not corpus_model.golden()["s0_out0"].any()
        return
    check_golden(model, corpus_model.golden(), entry["samples"])


@pytest.mark.parametrize("engine", [Interpreter, CompiledModel], ids=["interpreted", "compiled"])
def test_a_shape_that_is_a_value(corpus: Path, engine: type[Interpreter]) -> None:
    """The one model whose output's shape is the value of an input runs with that input frozen."""
    name = "lrt_simple_topk_op_runtime_k"
    golden, graph = np.load(corpus / "golden" / f"{name}.npz"), read_file(corpus / "models" / f"{name}.tflite")
    for sample in range(3):
        k = golden[f"s{sample}_in0"]
        fixed = engine.from_graph(convert(graph, constants={graph.inputs[0].name: k}, passes=[]))
        fixed.allocate_tensors()
        assert len(fixed.get_input_details()) == 1
        fixed.set_tensor(fixed.get_input_details()[0]["index"], golden[f"s{sample}_in1"])
        fixed.invoke()
        for i, details in enumerate(fixed.get_output_details()):
            assert_close(fixed.get_tensor(details["index"]), golden[f"s{sample}_out{i}"], f"k = {k}, output {i}")


@pytest.mark.corpus("app", sample=6)
def test_applications_on_every_choice_of_kernels(corpus_model: Any) -> None:
    """The kernels of other machines on this computer: SMLAD and Helium as plain C, against the same golden outputs."""
    graph, golden = read_file(corpus_model.path), corpus_model.golden()
    for target in TARGETS[1:]:
        session = Session(make_plan(graph, target))
        for i, tensor in enumerate(graph.inputs):
            session.view(tensor)[...] = golden[f"s0_in{i}"].reshape(tensor.shape)
        session.reset_variables()
        session.run()
        for i, tensor in enumerate(session.plan.graph.outputs):
            assert_close(session.view(tensor), golden[f"s0_out{i}"].reshape(tensor.shape), f"{target.name}, output {i}")
