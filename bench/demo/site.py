"""``twinfer demo``: a folder that is a web page. It runs models as WebAssembly, interpreted and compiled, and shows the
arena; it needs no network but the server that it comes from.

The page's own files lie beside this one. Those of the models are what ``twinfer compile --target wasm32`` writes, in
both modes, and ``models.js`` says what else the page knows of them.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from twinfer.aot.board.wasm.package import package
from twinfer.aot.build.project import MANIFEST, check_replaceable, put
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import Project, emit
from twinfer.aot.print.literals import identifier
from twinfer.bench.demo.features import features
from twinfer.bench.demo.sound import spectrogram
from twinfer.bench.demo.tasks import task_of
from twinfer.bench.models.source import Source
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.read.files import writing
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter

#: The models of a page that is made without one: read digits, spot words, find people, name pictures.
USUAL = ("digits_int8", "kws_int8", "vww_int8", "ic_int8")

#: Built-in models with weights that mean something.
TRAINED = ("digits_int8", "digits_float32")

_FOLDER = Path(__file__).resolve().parent

#: Seeds of the inputs whose outputs the page compares with the interpreter's.
_SEEDS = (1, 2)


def write_site(sources: Sequence[Source], folder: str | os.PathLike[str]) -> list[str]:
    """Write the page about these models; returns a line about each.

    A page of an earlier run is replaced; InvalidArgumentError if ``folder`` holds anything else, or two models have
    one name; ToolError if they cannot be compiled.
    """
    check_replaceable(Path(folder))
    names = [identifier(source.name) for source in sources]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidArgumentError(f"two models are called {twice[0]!r}: rename a file, functions are named after it")
    files: dict[str, str | bytes] = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(_FOLDER.iterdir())
        if path.suffix in (".html", ".css", ".js")
    }
    files["page.css"] = (_FOLDER.parent / "page" / "page.css").read_text(encoding="utf-8")
    records, lines = [], []
    for name, source in zip(names, sources, strict=True):
        record, own = _model(name, source)
        files |= own
        records.append(record)
        layers = len(record["positions"])
        lines.append(f"{source.name}: {record['kind']}, {layers} layers, {record['arena']:,} byte arena")
    ears = {record["ear"] for record in records}
    if "spectrogram" in ears:
        files |= _packed(_compiled("spectrogram", spectrogram(), "compiled"))
    if ears & {"window", "stream"}:
        files |= _packed(_compiled("sound_features", features(), "compiled"))
    files["models.js"] = f"export const models = {json.dumps(records)};\n"
    files[MANIFEST] = json.dumps({"files": sorted(files)}, indent=1) + "\n"
    with writing(folder):
        put(Path(os.path.realpath(folder)), files)
    return lines


def _compiled(name: str, graph: Graph, mode: Mode) -> Project:
    """The layers run one by one, whole, so that the page can stop between any two."""
    options = Options(mode=mode, memory="layers", optimize="speed")
    return emit(make_plan(graph, find("wasm32").target, options), name)


def _packed(project: Project) -> dict[str, str | bytes]:
    return {f"models/{path}": content for path, content in package(project, find("wasm32")).items()}


def _model(name: str, source: Source) -> tuple[Mapping[str, Any], dict[str, str | bytes]]:
    """What the page knows of a model, and its files."""
    graph = source.graph
    projects = [_compiled(name, graph, "compiled"), _compiled(f"{name}_interpreted", graph, "interpreted")]
    files = _packed(projects[0]) | _packed(projects[1])
    plan, task = projects[0].plan, task_of(graph)
    untrained = source.path is None and source.name not in TRAINED
    record = {
        "name": name,
        "title": source.name,
        "kind": task.kind,
        "ear": task.ear,
        "labels": () if untrained else task.labels,
        "untrained": untrained,
        "bytes": {"file": len(source.content), **{way: len(files[f"models/{own}.wasm"]) for way, own in _ways(name)}},
        "arena": plan.arena_bytes,
        "tensors": list(_tensors(plan)),
        "positions": [step.position for step in plan.steps],
        "checks": [_check(graph, seed) for seed in _SEEDS],
    }
    return record, files


def _ways(name: str) -> tuple[tuple[str, str], ...]:
    return ("compiled", name), ("interpreted", f"{name}_interpreted")


def _tensors(plan: Plan) -> Iterator[Mapping[str, Any]]:
    """What lies in the arena: from which operator to which, at which bytes."""
    for tensor, place in plan.places.items():
        if place.region == Region.ARENA and tensor.nbytes:
            first, last = plan.lives[tensor]
            yield {
                "name": "scratch" if (scratch := any(tensor is step.scratch for step in plan.steps)) else tensor.name,
                "type": tensor.dtype.name,
                "shape": tensor.shape,
                "offset": place.offset,
                "bytes": tensor.nbytes,
                "first": first,
                "last": last,
                "scratch": scratch,
            }


def _check(graph: Graph, seed: int) -> Mapping[str, Any]:
    """Random inputs and the interpreter's outputs from fresh state, as bytes."""
    inputs = random_inputs(graph, seed)
    interpreter = Interpreter.from_graph(graph)
    interpreter.allocate_tensors()
    interpreter.session.feed(inputs)
    interpreter.invoke()
    free = [value for tensor, value in zip(graph.inputs, inputs, strict=True) if tensor.data is None]
    return {"inputs": list(map(_text, free)), "outputs": list(map(_text, interpreter.session.outputs()))}


def _text(value: Array) -> str:
    return base64.b64encode(value.tobytes()).decode()
