"""Models compiled to WebAssembly, run in Node and in Chromium by one script."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.aot.board.wasm.package import package
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.tools import write_files

CARD = find("wasm32")

#: Runs the samples of cases, whole and layer by layer; gives the outputs as text, and what a run threw.
DRIVER = """\
const bytes = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
const text = (array) => {
  let all = "";
  for (const byte of new Uint8Array(array.buffer, array.byteOffset, array.byteLength)) all += String.fromCharCode(byte);
  return btoa(all);
};
const typed = (value, { constructor }) => new constructor(bytes(value).buffer);
export async function play(cases, at) {
  const results = [];
  for (const { name, samples } of cases) {
    const { load } = await import(`${at}${name}.js`);
    const model = await load();
    const { layers, rows } = model.facts;
    const ways = [];
    for (const whole of rows ? [true] : [true, false]) {
      model.reset();
      ways.push(samples.map((sample) => {
        const values = sample.map((value, i) => typed(value, model.inputs[i] ?? new Int8Array()));
        if (whole) return model.run(values, { integers: true }).map(text);
        model.set(values);
        for (let i = 0; i < layers.length; ++i) model.runLayers(i, i + 1);
        return model.outputs.map(text);
      }));
    }
    results.push(ways);
  }
  return results;
}
"""

_NODE = """\
import { readFileSync } from "node:fs";
import { play } from "./play.js";
console.log(JSON.stringify(await play(JSON.parse(readFileSync("cases.json")), "./")));
"""


def write_package(folder: Path, graph: Graph, name: str, options: Options = USUAL) -> None:
    """The files that a page loads."""
    write_files(folder, package(emit(make_plan(graph, CARD.target, options), name), CARD))


def written(folder: Path, cases: Sequence[tuple[str, Sequence[Sequence[Array]]]]) -> list[dict[str, Any]]:
    """Puts the script beside the packages; gives names with samples of inputs as it takes them."""
    listed = [
        {"name": name, "samples": [[base64.b64encode(x.tobytes()).decode() for x in sample] for sample in samples]}
        for name, samples in cases
    ]
    write_files(folder, {"play.js": DRIVER, "node.js": _NODE, "cases.json": json.dumps(listed)})
    return listed


def in_node(folder: Path, cases: Sequence[tuple[str, Sequence[Sequence[Array]]]]) -> Any:
    """The outputs of every case, way and sample, as bytes."""
    written(folder, cases)
    done = subprocess.run(["node", "node.js"], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return decoded(json.loads(done.stdout))


def in_chromium(folder: Path, cases: Sequence[tuple[str, Sequence[Sequence[Array]]]]) -> Any:
    """The same of a page, whose files a route brings: there is no network."""
    from browser import CHROMIUM
    from playwright.sync_api import Route, sync_playwright

    kinds = {".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}

    def bring(route: Route) -> None:
        file = folder / route.request.url.rsplit("/", 1)[1]
        route.fulfill(body=file.read_bytes(), content_type=kinds[file.suffix])

    listed = written(folder, cases)
    write_files(folder, {"page.html": "<!doctype html>"})
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.route("**/*", bring)
        page.goto("https://twinfer.test/page.html")
        script = "async (cases) => (await import('/play.js')).play(cases, '/')"
        results = page.evaluate(script, listed)
        browser.close()
    return decoded(results)


def decoded(results: Any) -> Any:
    return base64.b64decode(results) if isinstance(results, str) else [decoded(each) for each in results]


def arrays(outputs: Sequence[bytes], graph: Graph) -> list[Array]:
    return [np.frombuffer(y, t.dtype).reshape(t.shape) for y, t in zip(outputs, graph.outputs, strict=True)]
