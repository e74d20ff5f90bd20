"""Golden sequences of the corpus's models with state: several runs from one reset, on the host and on Cortex-M."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from needs import deep_but

from twinfer.aot.build.compiled import CompiledModel
from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run.interpreter import Interpreter

#: Models with a golden sequence: variables of microWakeWord, state of LSTM, SVDF and the audio front end.
MODELS = (
    "lrt_custom_lstm", "lrt_lstm_calibrated", "lrt_lstm_quantized", "lrt_sub", "lrt_unidirectional_sequence_lstm",
    "mww_okay_nabu_2", "mww_vad", "tflm_audio_preprocessor_int8", "tflm_keyword_scrambled_8bit", "tflm_trained_lstm",
    "tflm_trained_lstm_int8",
)  # fmt: skip

#: Models whose samples are the sequence: their operators keep a state that the file does not show.
STREAMS = {"tflm_audio_preprocessor_int8"}

#: What runs on a core in this mode: microWakeWord in every one, compiled on the main core also all others.
COMPILED = [*(("cortex-m4", "compiled", name) for name in ("mww", "lrt", "tflm")), ("cortex-m55", "compiled", "mww")]
ON_CORES = deep_but([*COMPILED, *((core, "interpreted", "mww") for core in ("cortex-m4", "cortex-m55"))], *COMPILED)

#: What runs on the host: all are interpreted, and one of each kind is compiled in both modes; the others are deep.
SHORT = (
    "lrt_lstm_quantized",
    "mww_vad",
    "tflm_audio_preprocessor_int8",
    "tflm_keyword_scrambled_8bit",
    "tflm_trained_lstm",
)
ON_HOST = deep_but(
    [(engine, name) for engine in ("interpreter", *get_args(Mode)) for name in MODELS],
    *(("interpreter", name) for name in MODELS),
    *(("compiled", name) for name in SHORT),
    ("interpreted", "tflm_keyword_scrambled_8bit"),
)

#: Float results may differ from the reference by this much of the largest one: twice test_corpus.py's bound, because
#: the state hands the difference of one run on to the next.
FLOAT_BOUND = 2e-6

pytestmark = pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")


@dataclass(frozen=True)
class Sequence:
    """A model with the inputs and the golden outputs of its runs, in order."""

    name: str
    graph: Graph
    inputs: list[list[Array]]
    want: list[list[Array]]

    def differing(self, outputs: list[Any]) -> list[str]:
        """The runs whose outputs differ from the golden ones."""
        runs = enumerate(zip(outputs, self.want, strict=True))
        return [f"{self.name}: run {k}" for k, pair in runs if not all(map(close, *pair))]


def close(got: Array, want: Array) -> bool:
    if want.dtype.kind != "f":
        return bool(np.array_equal(got.reshape(-1), want.reshape(-1)))
    bound = FLOAT_BOUND * float(np.abs(want).max(initial=0))
    return np.allclose(got.reshape(-1), want.reshape(-1), rtol=0, atol=bound)


def sequence(corpus: Path, name: str) -> Sequence:
    graph, begin = read_file(corpus / "models" / f"{name}.tflite"), "s" if name in STREAMS else "q"
    with np.load(corpus / "golden" / f"{name}.npz") as golden:
        count = sum(key.startswith(begin) and key.endswith("_in0") for key in golden)
        inputs = [
            [golden[f"{begin}{k}_in{i}"].reshape(t.shape) for i, t in enumerate(graph.inputs)] for k in range(count)
        ]
        want = [[golden[f"{begin}{k}_out{i}"] for i in range(len(graph.outputs))] for k in range(count)]
    return Sequence(name, graph, inputs, want)


def outputs_of(model: Interpreter, inputs: list[list[Array]]) -> Iterator[list[Array]]:
    for values in inputs:
        model.session.feed(values)
        model.invoke()
        yield model.session.outputs()


def test_every_sequence_is_here(corpus: Path) -> None:
    index = json.loads((corpus / "index.json").read_text())
    assert {Path(entry["file"]).stem for entry in index if entry.get("sequence")} == {*MODELS} - STREAMS


@pytest.mark.parametrize(("engine", "name"), ON_HOST)
def test_on_the_host(corpus: Path, name: str, engine: Any) -> None:
    """Twice, with a reset between: without it, the state of the first time would matter."""
    stream = sequence(corpus, name)
    if engine == "interpreter":
        model = Interpreter.from_graph(stream.graph)
    else:
        model = CompiledModel.from_graph(stream.graph, Options(mode=engine))
    model.allocate_tensors()
    assert model.plan.state_bytes
    for _ in range(2):
        assert not stream.differing([*outputs_of(model, stream.inputs)])
        model.reset_all_variables()


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize(("core", "mode", "which"), ON_CORES)
def test_on_the_core(corpus: Path, core: str, mode: Mode, which: str) -> None:
    """Models with names that begin so, in one program, one after the other."""
    card, streams = find(core), [sequence(corpus, name) for name in MODELS if name.startswith(which)]
    projects = [emit(make_plan(s.graph, card.target, Options(mode=mode)), s.name) for s in streams]
    jobs = [Job(values, i, fresh=not k) for i, s in enumerate(streams) for k, values in enumerate(s.inputs)]
    results = iter(run_jobs(build(projects, card), jobs, count=False))
    assert not [run for stream in streams for run in stream.differing([next(results).outputs for _ in stream.inputs])]
