"""Layouts of a folder: as a library of CMake, Arduino, Zephyr and others, without self-tests and boards.

What a layout adds is in ``layouts/<name>/``: its files are copied, with values in the places that name them, and
``use.md`` is the README's section on how to use them. Sources go to ``src/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from twinfer.aot.print.blob import quantized
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import Project

Layout = Literal["plain", "cmake", "arduino", "zephyr", "idf", "platformio", "cmsis-pack", "esphome"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

_FOLDER = Path(__file__).resolve().parent / "layouts"

#: What a layout takes from another one, too: ESPHome's component is a library of PlatformIO.
_MORE = {"esphome": ("platformio",)}

#: Layouts in which a library cannot have flags: there every source says so itself.
_FLAGLESS = ("arduino", "cmsis-pack")
_UNFUSED = """\
#if defined(__GNUC__) && !defined(__clang__) /* no hidden fused multiply-add: floats would differ in the last bits */
#pragma GCC optimize("fp-contract=off")
#endif
"""


def arranged(
    layout: Layout, sources: Mapping[str, str], group: str, about: str, projects: Sequence[Project]
) -> dict[str, str]:
    """The files of the library ``group`` by path: sources below ``src/``, and what the layout adds.

    ``sources`` are the models' C without self-tests, ``about`` is a sentence on what made it. There is no sketch for a
    model whose weights the caller has to give.
    """
    files = {f"src/{path}": text for path, text in sources.items()}
    if layout in _FLAGLESS:
        files = {path: _unfused(text) if path.endswith(".c") else text for path, text in files.items()}
    values = _values(sources, group, about, projects)
    left_out = {"use.md", *(["@group@.ino"] if any(p.plan.options.weights_as != "linked" for p in projects) else [])}
    for name in (*_MORE.get(layout, ()), layout):
        for path in sorted((_FOLDER / name).rglob("*")):
            if path.is_file() and path.name not in left_out:
                to = path.relative_to(_FOLDER / name).as_posix().removesuffix(".in")
                files[filled(to, values)] = filled(path.read_text(encoding="utf-8"), values)
    return files


def use(layout: Layout, group: str, projects: Sequence[Project]) -> str:
    """The README's section on how the layout is used."""
    values = _values({}, group, "", projects)
    return filled((_FOLDER / layout / "use.md").read_text(encoding="utf-8"), values) + "\n"


def filled(text: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """A template with ``values`` in the places that name them: ``@name@`` a text, ``@name:a {} b@`` a line for each."""

    def lines(place: re.Match[str]) -> str:
        return "\n".join(place[2].replace("{}", value) for value in values[place[1]])

    return re.sub(r"@(\w+)@", lambda place: str(values[place[1]]), re.sub(r"@(\w+):([^@\n]*)@", lines, text))


def _unfused(text: str) -> str:
    """A source with the pragma behind its first comment, the licence."""
    licence, _, rest = text.partition("\n")
    return f"{licence}\n{_UNFUSED}{rest}"


def _values(
    sources: Mapping[str, str], group: str, about: str, projects: Sequence[Project]
) -> Mapping[str, str | Sequence[str]]:
    names = [project.name for project in projects]
    headers = [path for name in dict.fromkeys([group, *names]) if (path := f"{name}.h") in sources]
    return {
        "group": group,
        "GROUP": group.upper(),
        "sub": group[:32],  # what PACK.xsd allows
        "about": re.sub(r"[^\w .,:()-]", "_", about.removesuffix(" Do not edit."), flags=re.ASCII),
        "models": names,
        "names": ", ".join(names),
        "sources": [path for path in sorted(sources) if path.endswith(".c")],
        "headers": headers,
        "includes": ",".join(headers),
        "quoted": ", ".join(f'"{path}"' for path in headers),
        "sketch": "\n".join(_sketch(project) for project in projects),
        "resets": "".join(_reset(project) for project in projects),
        "runs": "".join(f"    show_{name}();\n" for name in names),
    }


# -- the sketch of Arduino ---------------------------------------------------------------------------------------------


def _sketch(project: Project) -> str:
    """Buffers of a model, and a function that runs it over them and prints."""
    name, graph = project.name, project.plan.graph
    lines = []
    for kind, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        places = [f"{name}_{kind}_{i}" for i in range(len(tensors))]
        for place, tensor in zip(places, tensors, strict=True):
            aligned = f"alignas({place.upper()}_ALIGN) " if tensor is project.plan.borrowed else ""
            lines.append(f"{aligned}static {place.upper()}_TYPE {place}[{place.upper()}_SIZE];")
    inputs, outputs = (
        ", ".join(f"{name}_{kind}_{i}" for i in range(len(tensors))) or "nullptr"
        for kind, tensors in (("input", graph.inputs), ("output", graph.outputs))
    )
    lines += [
        "",
        f"static void show_{name}() {{",
        f"    const void *const inputs[] = {{{inputs}}};",
        f"    void *const outputs[] = {{{outputs}}};",
        "    const unsigned long begin = micros();",
        f"    const int status = {name}_run_static(inputs, outputs);",
        "    const unsigned long end = micros();",
        f'    Serial.print("{name}: status ");',
        "    Serial.print(status);",
        '    Serial.print(", microseconds ");',
        "    Serial.println(end - begin);",
        *_shown(project),
        "}",
        "",
    ]
    return "\n".join(lines)


def _shown(project: Project) -> Iterator[str]:
    """Prints the values of the first output, real ones where it is quantised."""
    name, outputs = project.name, project.plan.graph.outputs
    if outputs:
        value = f"{name}_output_0[i]"
        real = f"{name}_dequantize_output_0({value})" if quantized(outputs[0]) else f"(double){value}"
        yield f"    for (unsigned long i = 0; i < {name.upper()}_OUTPUT_0_SIZE; ++i) Serial.println({real});"


def _reset(project: Project) -> str:
    """The call that sets a model's state to its beginning, if it has one."""
    if not project.plan.state_bytes:
        return ""
    blocks = ", ".join(f"{project.name}_{region.value}()" for region in Memory(project.plan).start_regions)
    return f"    {project.name}_reset({blocks});\n"
