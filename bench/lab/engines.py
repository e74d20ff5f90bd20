"""Float ONNX file -> int8 file, by twinfer and by its peers, each with its runtime.

ONNX Runtime gets its QDQ form with int8 activations and per-channel weights. ai-edge-quantizer reads .tflite: it gets
our float export and its own static recipe. All get the same calibration samples.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from twinfer.bench.peers.engines import open_peer, silence
from twinfer.converter.convert import convert
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write

#: The one input of the networks.
INPUT = "x"


@dataclass(frozen=True)
class Engine:
    """``make(onnx, samples)`` gives the file, ``run(file, x [n, …])`` its logits [n, classes]. ``needs``: module and
    project that must be installed. ``prepare`` gives, before the clock starts, the file that ``make`` begins with."""

    make: Callable[[bytes, Array], bytes]
    run: Callable[[bytes, Array], Array]
    needs: tuple[str, str] | None = None
    prepare: Callable[[bytes], bytes] = bytes

    @property
    def installed(self) -> bool:
        return self.needs is None or importlib.util.find_spec(self.needs[0]) is not None

    @property
    def version(self) -> str:
        """The version of the peer's package; empty for twinfer."""
        return importlib.metadata.version(self.needs[1]) if self.needs and self.installed else ""

    def timed(self, model: bytes, samples: Array) -> tuple[bytes, float]:
        """The file, and the seconds that ``make`` took."""
        source = self.prepare(model)
        start = time.perf_counter()
        content = self.make(source, samples)
        return content, time.perf_counter() - start


def _ours_float(model: bytes, samples: Array | None = None) -> bytes:
    return write(convert(onnx.load_model_from_string(model)))


def _ours(model: bytes, samples: Array, *, refine: bool = False) -> bytes:
    """The default: ranges by min-max; or refined."""
    proto = onnx.load_model_from_string(model)
    with warnings.catch_warnings(action="ignore"):  # of raw features, which stay floats
        return write(convert(proto, quantize="int8", calibration={INPUT: samples}, refine=refine))


def _ort(model: bytes, samples: Array) -> bytes:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._rows: Iterator[Array] = iter(samples)

        def get_next(self) -> dict[str, Array] | None:
            row = next(self._rows, None)
            return None if row is None else {INPUT: row[None]}

    with tempfile.TemporaryDirectory(prefix="twinfer-") as folder:
        ready, quantised = Path(folder) / "ready.onnx", Path(folder) / "int8.onnx"
        quant_pre_process(onnx.load_model_from_string(model), ready, skip_symbolic_shape=True)
        kinds = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
        quantize_static(ready, quantised, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)
        return quantised.read_bytes()


def _ai_edge(model: bytes, samples: Array) -> bytes:
    """``model``: a float .tflite file."""
    from ai_edge_quantizer import quantizer, recipe

    (signature,) = read(model).signatures
    rows = {signature.key: [{INPUT: row[None]} for row in samples]}
    with silence(), warnings.catch_warnings(action="ignore"):
        maker = quantizer.Quantizer(model, recipe.static_wi8_ai8())
        seen = maker.calibrate(rows, num_threads=1)
        return bytes(maker.quantize(seen, enable_progress_bar=False, enable_progress_report=False).quantized_model)


def run_onnx(model: bytes, x: Array) -> Array:
    """Logits by ONNX Runtime on one thread."""
    import onnxruntime

    options: Any = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.concatenate([np.asarray(session.run(None, {INPUT: row[None]})[0]) for row in x])


def run_twinfer(model: bytes, x: Array) -> Array:
    """Logits by the interpreter; int8 inputs are quantised, int8 outputs dequantised."""
    session = Session(make_plan(read(model)))
    (source,), (output,) = session.plan.graph.inputs, session.plan.graph.outputs
    outputs = []
    for value in to_type(x, source):
        session.view(source)[...] = value
        session.run()
        outputs.append(session.view(output).copy())
    return from_type(np.concatenate(outputs), output)


def run_litert(model: bytes, x: Array) -> Array:
    """Logits by LiteRT with its default, XNNPACK; by its reference kernels where that refuses the file."""
    (source,), (output,) = (graph := read(model)).inputs, graph.outputs
    try:
        peer = open_peer("litert", model, 1)
    except ToolError:
        peer = open_peer("litert-ref", model, 1)
    return from_type(np.concatenate([peer([value[None]])[0] for value in to_type(x, source)]), output)


def to_type(x: Array, tensor: Tensor) -> Array:
    """Float values in the tensor's type and quantisation."""
    if tensor.type == "FLOAT32":
        return x
    limits = np.iinfo(tensor.dtype)
    steps = np.clip(np.rint(x / tensor.scale) + tensor.zero, limits.min, limits.max)
    return np.asarray(steps, tensor.dtype)


def from_type(x: Array, tensor: Tensor) -> Array:
    """The real values of the tensor's integers."""
    if tensor.type == "FLOAT32":
        return x
    return np.asarray((x.astype(np.float32) - tensor.zero) * np.float32(tensor.scale))


_ONNXRUNTIME = ("onnxruntime", "onnxruntime")

#: The engine that float accuracy is measured with; loss is the difference to it.
BASELINE = "onnxruntime float"

#: Name -> engine, in the order of the table.
ENGINES: Mapping[str, Engine] = {
    BASELINE: Engine(lambda model, samples: model, run_onnx, _ONNXRUNTIME),
    "twinfer float": Engine(_ours_float, run_twinfer),
    "twinfer int8": Engine(_ours, run_twinfer),
    "twinfer int8, refined": Engine(partial(_ours, refine=True), run_twinfer),
    "onnxruntime int8": Engine(_ort, run_onnx, _ONNXRUNTIME),
    "ai-edge-quantizer int8": Engine(_ai_edge, run_litert, ("ai_edge_quantizer", "ai-edge-quantizer"), _ours_float),
}

#: Our engines, which have limits, and the peers that they are compared with.
OURS = ("twinfer int8", "twinfer int8, refined")
PEERS = ("onnxruntime int8", "ai-edge-quantizer int8")
