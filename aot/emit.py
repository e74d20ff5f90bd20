"""Plan -> C: ``<name>.c`` with one function a layer, ``<name>_data.c`` with the constants, ``<name>.h`` for the caller.

Nothing is planned or chosen here but which layers share a body. The text depends on the plan, the name and the tool's
version only: same model and options, same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from twinfer.aot.data import Constants, data_header, data_source
from twinfer.aot.headers import closure, headers_of
from twinfer.aot.interface import header, static_source
from twinfer.aot.layers import Layers, Policy, kernel_counts, specialise
from twinfer.aot.literals import check_name
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan import Plan
from twinfer.runtime.session import initial_value


@dataclass(frozen=True)
class Project:
    """Emitted sources: ``code`` maps a path in the project's folder to its text, for all but the constants' values.

    ``layers`` are the C functions of ``plan.steps``.
    """

    name: str
    plan: Plan
    code: Mapping[str, str]
    layers: tuple[str, ...]
    constants: Constants
    banner: str

    @property
    def alignment(self) -> int:
        """Of every constant, in bytes."""
        return 64 if self.plan.target.wide else 16

    @property
    def files(self) -> dict[str, str]:
        """All sources."""
        return {**self.code, f"{self.name}_data.c": data_source(self.constants, self.name, self.banner, self.alignment)}


def version() -> str:
    """This tool's version, as installed."""
    try:
        return metadata.version("twinfer")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def emit(plan: Plan, name: str, *, sha256: str = "", policy: Policy = specialise) -> Project:
    """The C sources of a plan; ``name`` begins every symbol and file name.

    ``sha256`` is the model file's, for the comments. Raises InvalidArgumentError if ``name`` is no C identifier.
    """
    check_name(name)
    constants = Constants(plan, name)
    layers = Layers(plan, name, constants, policy(plan))
    functions = tuple(layers)
    source = f", model SHA-256 {sha256}" if sha256 else ""
    banner = f"/* {name}: made by twinfer {version()} for target {plan.target.name}{source}. Do not edit. */"
    kernels = headers_of(kernel_counts(plan))
    code = {
        f"{name}.h": header(plan, name, constants, banner),
        f"{name}.c": _source(plan, name, constants, layers, banner),
        f"{name}_data.h": data_header(constants, name, banner),
        f"{name}_static.c": static_source(plan, name, banner),
        **{f"kernels/{file}": text for file, text in closure(kernels).items()},
    }
    return Project(name, plan, code, tuple(f.symbol for f in functions), constants, banner)


def _source(plan: Plan, name: str, constants: Constants, layers: Layers, banner: str) -> str:
    functions = list(layers)
    kernels = ["kernels/tw.h", *(f"kernels/{h}" for h in headers_of(kernel_counts(plan)))]
    includes = [f"{name}.h", f"{name}_data.h", *kernels]
    parts = [
        banner,
        "\n".join(f'#include "{path}"' for path in dict.fromkeys(includes)),
        "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n",
        layers.preamble + "\n\n".join(layer.text for layer in functions) + ("\n" if functions else ""),
        _copy(name) if _copied(plan) else "",
        _run(plan, name, constants, [layer.symbol for layer in functions]),
        _reset(plan, name) if plan.variables else "",
    ]
    return "\n".join(part for part in parts if part)


def _copied(plan: Plan) -> bool:
    return bool(plan.graph.outputs) or any(t.data is None for t in plan.graph.inputs)


def _copy(name: str) -> str:
    return f"""/* Copies unless one side is absent or the value is in place already. */
static void {name}_copy(void *to, const void *from, size_t size) {{
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}}
"""


def _run(plan: Plan, name: str, constants: Constants, layers: list[str]) -> str:
    up = name.upper()
    copies_in = [
        f"        {name}_copy(base + {up}_INPUT_{i}_OFFSET, inputs[{i}], {up}_INPUT_{i}_BYTES);"
        for i, tensor in enumerate(plan.graph.inputs)
        if tensor.data is None
    ]
    copies_out = [
        f"        {name}_copy(outputs[{i}], {_output(tensor, i, up, constants)}, {up}_OUTPUT_{i}_BYTES);"
        for i, tensor in enumerate(plan.graph.outputs)
    ]
    lines = [
        f"int {name}_run(void *arena, const void *const *inputs, void *const *outputs) {{",
        "    unsigned char *const base = (unsigned char *)arena;",
        "    if (base == NULL) return 1;",
        f"    if ((uintptr_t)arena % {up}_ARENA_ALIGN != 0) return 2;",
        *(["    if (inputs != NULL) {", *copies_in, "    }"] if copies_in else ["    (void)inputs;"]),
        *(f"    {layer}(base);" for layer in layers),
        *(["    if (outputs != NULL) {", *copies_out, "    }"] if copies_out else ["    (void)outputs;"]),
        "    return 0;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _output(tensor: Tensor, i: int, up: str, constants: Constants) -> str:
    if tensor.data is None:
        return f"base + {up}_OUTPUT_{i}_OFFSET"
    return constants.symbol(tensor.data) or "base"


def _reset(plan: Plan, name: str) -> str:
    lines = [f"void {name}_reset(void *arena) {{", "    unsigned char *const base = (unsigned char *)arena;"]
    for tensor in plan.variables:
        lines.append(f"    memset(base + {plan.offsets[tensor]}, {initial_value(tensor)}, {tensor.nbytes});")
    return "\n".join([*lines, "}", ""])
