"""Every layout builds with its tool, or by its rules, without a step by hand; the library gives the reference's bits.

CMake and PlatformIO's core are the real ones. Zephyr, ESP-IDF and Arduino are too large to install: what they define is
written here in a few lines, Kconfig is read by kconfiglib.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import tiny
from needs import need_tools, needs

from twinfer.aot.build.layout import LAYOUTS, Layout
from twinfer.aot.build.project import write_all, write_project
from twinfer.aot.print.selftest import vectors
from twinfer.bench.models.builtin import builtin
from twinfer.command_line import compile as command
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC

#: What a parent project may say: another level, warnings, a macro.
FLAGS = "-O1 -Wall -Wextra -Werror -DPARENT"


def plan() -> Plan:
    return make_plan(builtin()["digits_int8"](), GENERIC)


def made(layout: Layout, folder: Path, several: bool = False) -> Path:
    """A folder of that layout: of the model ``net``, or of it and of one with state, called ``both``."""
    if several:
        models = [("net", plan(), ""), ("state", tiny.state(), "")]
        write_all(models, "both", folder / "both", layout=layout)
        return folder / "both"
    write_project(plan(), "net", folder / "net", layout=layout)
    return folder / "net"


def check() -> str:
    """A program, C and C++ at once, that is silent if the model gives the reference's bytes."""
    inputs = random_inputs(plan().graph)
    (output,) = vectors(plan(), inputs)[0].outputs
    numbers = [", ".join(map(str, array.ravel().tolist())) for array in (inputs[0], output)]
    return f"""#include <net.h>
#include <string.h>
int main(void) {{
    static const signed char x[] = {{{numbers[0]}}}, want[] = {{{numbers[1]}}};
    signed char y[sizeof want];
    const void *const inputs[] = {{x}};
    void *const outputs[] = {{y}};
    int status = (int)net_run_static(inputs, outputs);
    return status ? status : memcmp(y, want, sizeof y) != 0;
}}
"""


def run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def cmake(folder: Path, text: str, *options: str) -> None:
    """Build a project of CMake and run its program ``app``; flags are the parent's."""
    need_tools("cmake")
    (folder / "main.c").write_text(check())
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.13)\n{text}")
    said = run("cmake", "-S", ".", "-B", "out", f"-DCMAKE_C_FLAGS={FLAGS}", *options, cwd=folder)
    said += run("cmake", "--build", "out", cwd=folder)
    assert "warning" not in said.lower()


def compiled(folder: Path, sources: Sequence[Path], *flags: str) -> None:
    need_tools("gcc", "g++")
    for source in sources:
        cc = "gcc" if source.suffix == ".c" else "g++"
        run(cc, *flags, *FLAGS.split(), "-c", source, "-o", f"{source.stem}.o", cwd=folder)
    run("g++", *(f"{source.stem}.o" for source in sources), "-lm", "-o", "app", cwd=folder)


def test_layouts_are_listed_once() -> None:
    assert command.LAYOUTS == LAYOUTS


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "plain"])
def test_files(layout: Layout, tmp_path: Path) -> None:
    """All are listed, none is of a self-test or a board, no value is left out, and a later run replaces them."""
    folder = made(layout, tmp_path, several=True)
    listed = json.loads((folder / "twinfer.json").read_text())
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert {*listed["files"], "twinfer.json"} == set(files)
    assert listed["layout"] == layout
    assert not [path for path in files if "test" in path or "board" in path or path == "Makefile"]
    ours = [path for path in files if not path.startswith("src/") and path != "stack.py"]
    assert not [path for path in ours if "@" in path or "@" in files[path].read_text()]
    assert re.search(r"\n\n## Use\n\n(.+\n)+\n", files["README.md"].read_text())
    assert "\n\n`python3 stack.py" in files["README.md"].read_text()
    before = {path: file.read_text() for path, file in files.items()}
    made(layout, tmp_path, several=True)
    assert {path: file.read_text() for path, file in files.items()} == before
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/x.pyc").touch()  # as ESPHome leaves it
    write_project(tiny.dense(), "dense", folder)
    assert not (folder / "src").is_dir() or not list((folder / "src").glob("*.c"))


ADDED = "add_executable(app main.c)\ntarget_link_libraries(app PRIVATE net::net)\n"


@pytest.mark.parametrize(
    "text",
    [
        "project(app C)\nadd_subdirectory(net)\n",
        pytest.param(
            "project(app C)\ninclude(FetchContent)\n"
            "FetchContent_Declare(net SOURCE_DIR ${CMAKE_SOURCE_DIR}/net)\nFetchContent_MakeAvailable(net)\n",
            marks=pytest.mark.deep,
        ),
    ],
)
def test_cmake(text: str, tmp_path: Path) -> None:
    made("cmake", tmp_path)
    cmake(tmp_path, f"{text}{ADDED}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    run("out/app", cwd=tmp_path)
    lines = json.loads((tmp_path / "out/compile_commands.json").read_text())
    ours, theirs = (next(e["command"] for e in lines if e["file"].endswith(name)) for name in ("net.c", "main.c"))
    assert FLAGS in ours
    assert "-ffp-contract=off" in ours
    assert "-ffp-contract=off" not in theirs


@pytest.mark.deep
def test_cmake_installed(tmp_path: Path) -> None:
    need_tools("cmake")
    folder = made("cmake", tmp_path)
    run("cmake", "-S", folder, "-B", "lib", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'there'}", cwd=tmp_path)
    run("cmake", "--build", "lib", "--target", "install", cwd=tmp_path)
    find = f"-DCMAKE_PREFIX_PATH={tmp_path / 'there'}"
    cmake(tmp_path, f"project(app C)\nfind_package(net REQUIRED)\n{ADDED}", find)
    run("out/app", cwd=tmp_path)


@pytest.mark.deep
def test_cmake_for_another_machine(tmp_path: Path) -> None:
    need_tools("arm-none-eabi-gcc")
    made("cmake", tmp_path, several=True)
    text = "project(app C)\nadd_compile_options(-mcpu=cortex-m4 -mthumb)\nadd_subdirectory(both)\n"
    generic = ("-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_C_COMPILER=arm-none-eabi-gcc")
    cmake(tmp_path, text, *generic, "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY")
    assert "v7E-M" in run("arm-none-eabi-readelf", "-A", tmp_path / "out/both/libboth.a", cwd=tmp_path)


ARDUINO = """#pragma once
#include <stdio.h>
inline unsigned long micros() { return 0; }
inline void delay(unsigned long) {}
struct {
    void begin(long) {}
    void print(const char *text) { printf("%s", text); }
    void print(int value) { printf("%d", value); }
    void println(unsigned long value) { printf("%lu\\n", value); }
    void println(double value) { printf("%g\\n", value); }
} static Serial;
void setup();
void loop();
"""


@pytest.mark.parametrize("several", [False, True])
def test_arduino(several: bool, tmp_path: Path) -> None:
    """As arduino-cli does: all of src/ with -Isrc alone, the sketch as C++ behind Arduino.h."""
    folder = made("arduino", tmp_path, several)
    properties = dict(line.split("=", 1) for line in (folder / "library.properties").read_text().splitlines())
    needed = ("name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures")
    assert [key for key in needed if not properties[key]] == []
    assert properties["name"] == folder.name
    assert properties["category"] == "Data Processing"  # one of Arduino's list
    assert all((folder / "src" / header).exists() for header in properties["includes"].split(","))
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    sketch = (folder / f"examples/{folder.name}/{folder.name}.ino").read_text()
    (tmp_path / "sketch.cpp").write_text(f"#include <Arduino.h>\n{sketch}\nint main() {{ setup(); loop(); }}\n")
    sources = [path for path in sorted((folder / "src").rglob("*")) if path.suffix in (".c", ".cpp", ".S")]
    compiled(tmp_path, [*sources, tmp_path / "sketch.cpp"], f"-I{folder / 'src'}", "-I.")
    said = run("./app", cwd=tmp_path)
    assert said.startswith("net: status 0, microseconds 0\n")
    assert ("state: status 0" in said) == several


def test_names_of_components_are_as_long_as_allowed(tmp_path: Path) -> None:
    """PACK.xsd: at most 32 characters."""
    name = "long" * 10
    write_project(tiny.dense(), name, tmp_path, layout="cmsis-pack")
    (component,) = ElementTree.parse(tmp_path / f"twinfer.{name}.pdsc").getroot().findall("components/component")
    assert component.attrib["Csub"] == "long" * 8


def test_no_sketch_where_the_caller_gives_the_weights(tmp_path: Path) -> None:
    """They are not in the sources; the rest of the library, and what new weights need, is there."""
    graph = builtin()["digits_int8"]()
    write_project(make_plan(graph, GENERIC, Options(weights_as="blob")), "net", tmp_path / "net", layout="arduino")
    assert not (tmp_path / "net/examples").exists()
    assert (tmp_path / "net/src/net.c").exists()
    assert (tmp_path / "net/net_weights.bin").exists()


def test_floats_are_not_fused_where_a_library_has_no_flags(tmp_path: Path) -> None:
    """gcc fuses multiply and add unless it is told not to; the sources tell it."""
    need_tools("arm-none-eabi-gcc")
    flags = "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard -O2 -std=gnu11"
    fused = []
    for layout in ("arduino", "zephyr"):
        write_project(tiny.conv(), "conv", tmp_path / layout, layout=layout)
        source = tmp_path / layout / "src/conv.c"
        fused.append("vfma" in run("arm-none-eabi-gcc", *flags.split(), "-S", "-o", "-", source, cwd=tmp_path))
    assert fused == [False, True]


IDF = """project(app C)
set(COMPONENT_LIB model)
function(idf_component_register)
  cmake_parse_arguments(IDF "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  add_library(${COMPONENT_LIB} STATIC ${IDF_SRCS})
  target_include_directories(${COMPONENT_LIB} PUBLIC ${IDF_INCLUDE_DIRS})
endfunction()
add_subdirectory(net)
add_executable(app main.c)
target_link_libraries(app PRIVATE model m)
"""


def test_idf(tmp_path: Path) -> None:
    yaml = needs("yaml")
    folder = made("idf", tmp_path)
    described = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert set(described) <= {"version", "description", "url", "license", "dependencies", "files", "targets"}
    assert described["version"] == "1.0.0"
    cmake(tmp_path, IDF)
    run("out/app", cwd=tmp_path)


ZEPHYR = """project(app C)
set(CONFIG_NET_MODEL {on})
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${{name}})
  add_library(${{name}} STATIC)
endmacro()
macro(zephyr_library_sources)
  target_sources(${{ZEPHYR_CURRENT_LIBRARY}} PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${{ZEPHYR_CURRENT_LIBRARY}} PRIVATE ${{ARGN}})
endmacro()
add_library(zephyr_interface INTERFACE)
macro(zephyr_include_directories)
  target_include_directories(zephyr_interface INTERFACE ${{ARGN}})
endmacro()
add_subdirectory(net/{cmake})
add_executable(app main.c)
target_link_libraries(app PRIVATE net_model zephyr_interface m)
"""


def test_zephyr(tmp_path: Path) -> None:
    """module.yml has the keys of Zephyr's schema, Kconfig a symbol that is on, CMake builds what it guards."""
    yaml, kconfiglib = needs("yaml"), needs("kconfiglib")
    folder = made("zephyr", tmp_path)
    module = yaml.safe_load((folder / "zephyr/module.yml").read_text())
    assert module == {"name": "net", "build": {"cmake": "zephyr", "kconfig": "zephyr/Kconfig"}}
    config = kconfiglib.Kconfig(folder / module["build"]["kconfig"], warn=True, warn_to_stderr=False)
    assert config.warnings == []
    assert [symbol.name for symbol in config.unique_defined_syms] == ["NET_MODEL"]
    cmake(tmp_path, ZEPHYR.format(on=config.syms["NET_MODEL"].str_value, cmake=module["build"]["cmake"]))
    run("out/app", cwd=tmp_path)


#: A platform for this computer, and where PlatformIO looks for SCons, which it would download.
PLATFORM: dict[str, Any] = {
    "here/platform.json": {"name": "here", "version": "1.0.0", "title": "here", "frameworks": {}, "packages": {}},
    "here/platform.py": "from platformio.public import PlatformBase\n\n\nclass HerePlatform(PlatformBase):\n    pass\n",
    "here/builder/main.py": """from SCons.Script import Default, DefaultEnvironment
env = DefaultEnvironment()
env.Replace(CC="gcc", CXX="g++", AR="ar", RANLIB="ranlib", PROGNAME="app")
Default(env.BuildProgram())
""",
    "core/packages/tool-scons/scons.py": "from SCons.Script import main\nmain()\n",
}


@pytest.mark.deep
def test_platformio(tmp_path: Path) -> None:
    """PlatformIO's core finds the library in lib/, and builds it with its flag."""
    needs("platformio", "SCons")
    from platformio.dependencies import get_core_dependencies

    made("platformio", tmp_path / "lib", several=True)
    scons = {"name": "tool-scons", "version": get_core_dependencies()["tool-scons"].lstrip("~^=")}
    owned = {**scons, "type": "tool", "spec": {"owner": "platformio", "name": "tool-scons"}}
    files = {f"core/packages/tool-scons/{name}": text for name, text in (("package.json", scons), (".piopm", owned))}
    for path, text in {**PLATFORM, **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text if isinstance(text, str) else json.dumps(text))
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.cpp").write_text(check())
    (tmp_path / "platformio.ini").write_text(
        f"[env:here]\nplatform = symlink://{tmp_path / 'here'}\nbuild_flags = {FLAGS}\n"
    )
    home = {**os.environ, "PLATFORMIO_CORE_DIR": str(tmp_path / "core"), "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no"}
    said = run(sys.executable, "-m", "platformio", "run", "-v", cwd=tmp_path, env=home)
    assert [line for line in said.splitlines() if "lib/both/src/net.c" in line and "-ffp-contract=off" in line]
    assert not [line for line in said.splitlines() if "src/main.cpp" in line and "-ffp-contract=off" in line]
    run(".pio/build/here/app", cwd=tmp_path)


@pytest.mark.parametrize("several", [False, True])
def test_cmsis_pack(several: bool, tmp_path: Path) -> None:
    """What PACK.xsd demands is there, every file exists, and those of the component build the library."""
    folder = made("cmsis-pack", tmp_path, several)
    package = ElementTree.parse(folder / f"twinfer.{folder.name}.pdsc").getroot()
    for name in ("name", "vendor", "description", "url", "releases/release"):
        (element,) = package.findall(name)
        assert element.text
    assert (folder / (package.findtext("license") or "")).is_file()
    (component,) = package.findall("components/component")
    assert {"Cclass", "Cgroup", "Csub", "Cversion"} == set(component.attrib)
    assert all(re.fullmatch(r"[-_A-Za-z0-9]+", package.findtext(name) or "") for name in ("name", "vendor"))
    files = [(file.attrib["category"], folder / file.attrib["name"]) for file in component.findall("files/file")]
    assert all(path.exists() for _, path in files)
    (tmp_path / "main.c").write_text(check())
    sources = [path for category, path in files if category == "source"]
    includes = [f"-I{path}" for category, path in files if category == "include"]
    compiled(tmp_path, [*sources, tmp_path / "main.c"], *includes)
    run("./app", cwd=tmp_path)
