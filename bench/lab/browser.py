"""Times models in a browser, beside other runtimes' WebAssembly: ``python -m twinfer.bench.lab.browser --json FILE``.

The page runs in Chromium, all engines on one thread and in turn. The others come from npm into a folder of the user's
cache. LiteRT.js takes no int8, so that the models get inputs and outputs of floats, for all engines alike. docs/wasm.md
shows the table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from twinfer.aot.board.wasm.package import package
from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.lab import figures
from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.models.source import load
from twinfer.runtime.cache import folder
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.tools import cpu, need_tool, run_tool, write_files
from twinfer.runtime.write.tflite import write

MODELS = ("kws_int8", "vww_int8", "ic_int8", "ad01_int8")

#: Engine -> its package.
PEERS = {
    "litert.js": "@litertjs/core@2.5.3",
    "onnxruntime-web": "onnxruntime-web@1.30.0",
    "tfjs-tflite": "@tensorflow/tfjs-tflite@0.0.1-alpha.10",
}

#: Milliseconds of a batch, short so that some are not interrupted, and of the runs before the first, in which the
#: browser compiles again what is hot.
BATCH, WARM = 2, 1000

#: What gives a page a clock of 5 µs in place of 100.
_ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}

_KINDS = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}

_PAGE = """<!doctype html><script type="importmap">
{"imports": {"@litertjs/wasm-utils": "/npm/@litertjs/wasm-utils/dist/index.js"}}</script>"""


def with_floats(graph: Graph) -> Graph:
    """The model with a float input and output in place of int8, by QUANTIZE and DEQUANTIZE."""
    ((x,), (y,)) = graph.inputs, graph.outputs
    first, last = Tensor("float_input", "FLOAT32", x.shape), Tensor("float_output", "FLOAT32", y.shape)
    nodes = (Node("QUANTIZE", (first,), (x,)), *graph.nodes, Node("DEQUANTIZE", (y,), (last,)))
    numbered = tuple(replace(node, index=i) for i, node in enumerate(nodes))
    tensors = (first, *graph.tensors, last)
    return replace(graph, tensors=tensors, nodes=numbered, inputs=(first,), outputs=(last,), signatures=())


def npm(*packages: str) -> Path:
    """The folder that holds these packages, NAME@VERSION; installs what is missing. ToolError without npm."""
    place = folder() / "npm"
    place.mkdir(parents=True, exist_ok=True)
    if not all((place / "node_modules" / name.rpartition("@")[0]).exists() for name in packages):
        run_tool([need_tool("npm", "npm"), "install", "--no-audit", "--no-fund", "--silent", *packages], place)
    return place / "node_modules"


def site(models: Sequence[str], to: Path) -> list[dict[str, Any]]:
    """Writes the files of the page; gives what it is told of every model, and the outputs that are right."""
    card, told = find("wasm32"), list[dict[str, Any]]()
    for name in models:
        graph = with_floats(load(name).graph)
        content = write(graph)
        project = emit(make_plan(graph, card.target), name)
        ours = package(project, card)
        write_files(to / "ours", ours)
        write_files(to / "models", {f"{name}.tflite": content, f"{name}.onnx": onnx_graph(graph)})
        (x,) = random_inputs(graph)
        right: Array = Interpreter(model_content=content).run(x)
        about = {"name": name, "input": x.ravel().tolist(), "shape": list(x.shape)}
        (counted,) = run_jobs(build(project, card), [Job([x])])
        own = {"module_bytes": len(ours[f"{name}.wasm"]), "operations": counted.counts[0], "macs": project.plan.macs}
        told.append({"page": about, "right": right.ravel(), "own": own})
    script = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    write_files(to, {"browser.js": script, "page.html": _PAGE})
    return told


def measure(models: Sequence[str], engines: Sequence[str], rounds: int) -> dict[str, Any]:
    """Times of every model by every engine; an engine that fails says why."""
    from playwright.sync_api import Route, sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise ToolError("chromium is not installed: apt-get install chromium")
    packages = npm(*PEERS.values()) if {*engines} - {"twinfer"} else Path()
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work, sync_playwright() as playwright:
        told = site(models, Path(work))

        def bring(route: Route) -> None:
            path = route.request.url.split("/", 3)[3].split("?")[0]
            file = packages / path.removeprefix("npm/") if path.startswith("npm/") else Path(work) / path
            kind = _KINDS.get(file.suffix, "application/octet-stream")
            if file.exists():
                route.fulfill(body=file.read_bytes(), content_type=kind, headers=_ISOLATED)
            else:
                route.fulfill(status=404)

        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(0)
        page.route("**/*", bring)
        page.goto("https://twinfer.test/page.html")
        call = "async (given) => (await import('/browser.js')).measure(...given)"
        rows = list[dict[str, Any]]()
        for each in told:
            found = page.evaluate(call, [each["page"], list(engines), rounds, BATCH, WARM])
            rows += [row(engine, each, result) for engine, result in found.items()]
        version = browser.version
        browser.close()
    machine = {
        "cpu": cpu().splitlines()[1].partition(": ")[2],
        "compiler": find("wasm32").toolchain.version.splitlines()[0],
        "chromium": version,
        "peers": {engine: PEERS[engine] for engine in engines if engine in PEERS},
    }
    return {"machine": machine, "rows": rows}


def row(engine: str, told: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    about = {"model": told["page"]["name"], "engine": engine}
    if "error" in result:
        return {**about, "error": result["error"].splitlines()[0]}
    times, far = np.array(result["times"]), np.abs(np.array(result["output"]) - told["right"])
    own = told["own"] if engine == "twinfer" else {}
    return {
        **about,
        "min_us": round(float(times.min()), 1),
        "median_us": round(float(np.median(times)), 1),
        "max_difference": float(far.max()),
        **own,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--engines", nargs="+", default=["twinfer", *PEERS])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.models, arguments.engines, arguments.rounds)
    text = json.dumps(found, indent=1) + "\n"
    if arguments.json:
        arguments.json.write_text(text, encoding="utf-8")
    Console(width=130).print(figures.browser(found), markup=False, highlight=False)


if __name__ == "__main__":
    main()
