"""What a browser or Node loads: ``NAME.wasm``, ``NAME.js`` with what is known of the model, and their types.

The module imports nothing: it is the model, linked alone, with its memory. ``twinfer-run.js``, which all models share,
puts inputs there and calls it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from twinfer.aot.build.firmware import flags_for
from twinfer.aot.build.library import LIBRARY, library_sources
from twinfer.aot.build.targets import Card
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import Project
from twinfer.aot.print.feed import Feeding
from twinfer.aot.print.interface import static_source
from twinfer.aot.print.run_layers import MACRO, with_layer
from twinfer.runtime.affine import quantised
from twinfer.runtime.cache import unsealed
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan, Region

_FOLDER = Path(__file__).resolve().parent

#: Bytes of the stack, which lies first in memory: what does not fit traps. Kernels keep what is large in the arena.
_STACK_BYTES = 65536


def package(project: Project, card: Card) -> dict[str, str | bytes]:
    """The files by name; ToolError if clang cannot build them, or the weights are no part of the program."""
    name = project.name
    return {
        f"{name}.wasm": module(project, card),
        f"{name}.js": _script(project),
        f"{name}.d.ts": _TYPES.replace("NAME", name),
        "package.json": '{ "private": true, "type": "module" }\n',  # that Node takes .js for modules
        **{file: (_FOLDER / file).read_text(encoding="utf-8") for file in ("twinfer-run.js", "twinfer-run.d.ts")},
    }


def module(project: Project, card: Card) -> bytes:
    """The WebAssembly module of a model: its functions and memory, and nothing that it imports."""
    if project.constants.blob or project.constants.paged:
        raise ToolError("a module has its weights in it, and is as easily replaced: compile without --weights-as")
    name, tools = project.name, card.toolchain
    own = static_source(project.plan, name, project.banner)  # of several models, too, each has an arena of its own
    sources = library_sources([project], lambda _: own, included=tools.included)
    words = (
        *flags_for(card, project),
        f"-D{MACRO}",
        *tools.linking_alone([*_exported(project), "__heap_base"]),
        *(f"-Wl,-z,stack-size={_STACK_BYTES}", "-Wl,--stack-first", "-Wl,--strip-all"),
        *LIBRARY,
    )
    return unsealed(tools.link(sources, words, f"{name}.wasm"))


def _exported(project: Project) -> Iterator[str]:
    plan, memory = project.plan, Memory(project.plan)
    names = ["run_static", "run_layers", *(block.value for block in memory.blocks)]
    names += ["begin", "push_row", "finish"] if plan.fed else []
    names += ["reset"] if plan.state_bytes else []
    return (f"{project.name}_{name}" for name in names)


_TYPES = """\
import type { Facts, Model, Source } from "./twinfer-run.js";

export declare const facts: Facts;
/** Loads NAME.wasm, which lies beside this file, or the module that is given. */
export declare function load(source?: Source): Promise<Model>;
"""


def _script(project: Project) -> str:
    name = project.name
    facts = ",\n".join(f"  {key}: {_value(value)}" for key, value in _facts(project).items())
    return f"""// {project.banner.removeprefix("/* ").removesuffix(" */")}
import {{ open }} from "./twinfer-run.js";

export const facts = {{
{facts},
}};

export function load(source = new URL("{name}.wasm", import.meta.url)) {{
  return open(facts, source);
}}
"""


def _value(value: Any) -> str:
    """A fact as JavaScript: a list of records has a line for each."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + "".join(f"    {json.dumps(each)},\n" for each in value) + "  ]"
    return json.dumps(value)


def _facts(project: Project) -> Mapping[str, Any]:
    plan, memory = project.plan, Memory(project.plan)
    free = [tensor for tensor in plan.graph.inputs if tensor.data is None]
    return {
        "name": project.name,
        "mode": plan.options.mode,
        "arenaBytes": sum(memory.nbytes(region) for region in plan.arenas),
        "stateBytes": plan.state_bytes,
        "macs": plan.macs,
        "blocks": [block.value for block in memory.blocks],
        "reset": [block.value for block in memory.start_regions] if plan.state_bytes else [],
        "rows": _rows(project, free),
        "inPlace": _in_place(plan),
        "inputs": [_tensor(plan, tensor) for tensor in free],
        "outputs": [_tensor(plan, tensor) for tensor in plan.graph.outputs],
        "layers": _layers(plan),
    }


def _rows(project: Project, free: list[Tensor]) -> Mapping[str, Any] | None:
    if project.plan.fed is None or project.plan.fed.feed is None:
        return None
    feed = project.plan.fed.feed
    block = Feeding(project.plan, project.name).region.value
    return {"input": free.index(feed.out), "count": feed.height, "block": block}


def _in_place(plan: Plan) -> Mapping[str, Any] | None:
    if plan.borrowed is None:
        return None
    inputs = plan.graph.inputs
    return {"place": inputs.index(plan.borrowed), "of": len(inputs), "bytes": plan.borrowed.nbytes}


def _tensor(plan: Plan, tensor: Tensor) -> Mapping[str, Any]:
    parts = 2 if tensor.dtype.kind == "c" else 1
    facts: dict[str, Any] = {
        "name": tensor.name,
        "dtype": tensor.dtype.name,
        "shape": list(tensor.shape),
        "length": tensor.size * parts,
        "bytes": tensor.nbytes,
    }
    if tensor.data is not None:
        facts["data"] = list(tensor.data.tobytes())
    elif tensor in plan.places:
        place = plan.places[tensor]
        facts |= {"block": place.region.value, "offset": 0 if place.region == Region.INPUT else place.offset}
    if quantised(tensor) and tensor.quant is not None:
        scale, zero = tensor.quant.scale.astype(float).tolist(), tensor.quant.zero_point.tolist()
        facts |= {"scale": scale[0], "zeroPoint": zero[0]}
        if tensor.quant.per_channel:
            facts |= {"scale": scale, "zeroPoint": zero, "inner": prod(tensor.shape[tensor.quant.axis + 1 :])}
    return facts


def _layers(plan: Plan) -> list[Mapping[str, Any]]:
    return [
        {
            "op": step.node.op,
            "kernel": step.call.kernel,
            "output": step.call.written[0].name,
            "dtype": step.call.written[0].dtype.name,
            "shape": list(step.call.written[0].shape),
            "macs": step.call.macs,
            "with": last,
        }
        for step, last in zip(plan.steps, with_layer(plan), strict=True)
    ]
