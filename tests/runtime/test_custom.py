"""Operators of the user's own: the worked example in every engine, and whatever may be wrong with a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import assert_equal, assert_sanitized, cases_of, graph_of, interpreted, numpy_outputs, values_of
from needs import ROOT

import twinfer
from twinfer import kernels_c
from twinfer.aot.build.host import compile_plans
from twinfer.aot.print.emit import emit
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime import registry
from twinfer.runtime.custom import library, places
from twinfer.runtime.custom.load import load_package
from twinfer.runtime.errors import OperatorError, ToolError, ToolWarning, UnsupportedOperatorError
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators, register, variants
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import DSP, GENERIC, HOST, TARGETS
from twinfer.runtime.write.tflite import write

EXAMPLE, NAME = ROOT / "docs" / "examples", "CUSTOM:LeakyIntegrator"

pytestmark = pytest.mark.usefixtures("own_operators")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, to be spoiled."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "my_operators"))


def model(leak: tuple[float, ...] = (0.5, 0.9)) -> Any:
    b = Builder("level")
    x = b.input("x", "FLOAT32", (5, len(leak)))
    out = b.op(NAME, [b.op("RELU", [x]), np.array(leak, np.float32)], shape=(5, len(leak)))
    return b.graph([b.op("ABS", [out])])


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "level.tflite"
    path.write_bytes(write(model()))
    return str(path)


# -- the example -------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_files() -> None:
    page = (ROOT / "docs" / "custom-operators.md").read_text(encoding="utf-8")
    files = [path for path in EXAMPLE.iterdir() if path.is_file()]
    assert {path.suffix for path in files} == {".py", ".h"}
    for path in files:
        language = {".py": "python", ".h": "c"}[path.suffix]
        assert f"```{language}\n{path.read_text(encoding='utf-8')}```\n" in page, path.name


def test_every_case_in_every_engine(folder: Path, tmp_path: Path) -> None:
    register(folder)
    plans, wanted, tried = {}, {}, []
    for name, case in cases_of(NAME).items():
        graph = graph_of(case.node)
        values = values_of(case, graph)
        want = numpy_outputs(case, graph, values)
        for target in TARGETS:
            for level in range(kernels_c.lib.tw_level() + 1):
                assert_equal(interpreted(graph, values, target, level), want, graph.outputs, 0, target.name)
        symbol = name.replace("-", "_")
        plans[symbol], wanted[symbol] = make_plan(graph, GENERIC), (values, want)
        tried.append((emit(plans[symbol], symbol), values))
    assert len(plans) == 4
    for symbol, engine in compile_plans(plans).items():
        values, want = wanted[symbol]
        engine.feed(values)
        engine.run()
        assert_equal(engine.outputs(), want, plans[symbol].graph.outputs, 0, "compiled")
    assert_sanitized(tmp_path / "sanitized", tried)


def test_levels_last_from_run_to_run(folder: Path) -> None:
    """Against the recurrence over the whole signal; a reset begins anew."""
    register(folder)
    graph, leak = model(), np.array([0.5, 0.9], np.float32)
    session, signal = Session(make_plan(graph)), np.random.default_rng(4).uniform(0, 1, (4, 5, 2)).astype(np.float32)
    for _ in range(2):
        session.reset_variables()
        level = np.zeros(2, np.float32)
        for x in signal:
            session.feed([x])
            session.run()
            for got, value in zip(session.outputs()[0], x, strict=True):
                level = leak * level + value
                np.testing.assert_array_equal(got, level)


def test_memory_that_lasts_must_be_announced(folder: Path) -> None:
    """Else a model that calls the operator from several places, or not in every run, would go wrong in silence."""
    module = folder / "leaky_integrator.py"
    module.write_text(module.read_text(encoding="utf-8").replace(", keeps_state=True", ""), encoding="utf-8")
    register(folder)
    with pytest.raises(OperatorError, match=r"levels of .* must say keeps_state"):
        make_plan(model())


def test_verify_bench_inspect_and_run(folder: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    own = ("--operators", str(folder))
    assert main(["verify", file, "--against", "none", "--samples", "2", *own]) == 0
    assert "proven on 2 samples" in capsys.readouterr().out
    assert main(["inspect", file, *own]) == 0
    assert "leaky_integrator_f32" in capsys.readouterr().out
    assert main(["bench", file, "--against", "none", "--runs", "2", *own]) == 0
    assert "same bits" in capsys.readouterr().out
    assert main(["run", file, "--guard", "--engine", "compiled", *own]) == 0


@pytest.mark.usefixtures("board_tools")
def test_on_a_microcontroller(folder: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", file, "--target", "cortex-m4", "--operators", str(folder)]) == 0
    assert "proven on one sample" in capsys.readouterr().out


def test_an_emitted_project_has_the_header_as_it_is(folder: Path, tmp_path: Path) -> None:
    register(folder)
    files = emit(make_plan(model(), HOST), "level").files
    assert files["kernels/custom/leaky_integrator.h"] == (folder / "leaky_integrator.h").read_text()
    assert main(["compile", "digits_int8", "-o", str(tmp_path / "c")]) == 0
    assert not (tmp_path / "c" / "kernels" / "custom").exists(), "only what a model uses"


# -- registration ------------------------------------------------------------------------------------------------------


def test_not_registered(file: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"no kernel for CUSTOM:LeakyIntegrator .*twinfer\.register"):
        make_plan(twinfer.read_file(file))


def test_twice_is_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = len(operators())
    for path in (folder, str(folder / ".." / folder.name), "."):
        twinfer.register(path)
    assert len(operators()) == before + 1
    assert NAME in operators()


def test_changed_files_are_read_after_unregister(folder: Path) -> None:
    register(folder)
    module = folder / "leaky_integrator.py"
    module.write_text(module.read_text().replace(NAME, "CUSTOM:Another"))
    register(folder)
    assert NAME in operators()
    registry.unregister(folder)
    assert NAME not in operators()
    register(folder)
    assert "CUSTOM:Another" in operators()
    assert NAME not in operators()


def test_other_processes_know_it(folder: Path, file: str) -> None:
    register(folder)
    command = [sys.executable, "-m", "twinfer", "verify", file, "--against", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr


def test_what_is_forgotten_is_unknown_to_other_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all folders that the environment names, in whatever way, only that one; naming one twice is once."""
    register(folder)
    monkeypatch.setenv(places.VARIABLE, os.pathsep.join(["/another", str(folder / ".." / folder.name)]))
    register(folder)
    assert [*places.named_folders()] == [Path("/another"), folder]
    registry.unregister(folder)
    assert [*places.named_folders()] == [Path("/another")]
    registry.unregister(folder)
    monkeypatch.delenv(places.VARIABLE)
    register(folder)
    assert [*places.named_folders()] == [folder]


def test_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.setattr(registry, "_looked", False)
    monkeypatch.setenv(places.VARIABLE, f":{folder}:")
    registry.forget_known()
    assert NAME in operators()
    monkeypatch.setattr(registry, "_looked", False)
    monkeypatch.setenv(places.VARIABLE, "/nowhere")
    for _ in range(2):  # it stays wrong
        registry.forget_known()
        with pytest.raises(OperatorError, match="/nowhere is no folder"):
            operators()


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example as a package with an entry point, as pip would leave it."""
    package = folder.parent / "site" / "leaky_package"
    shutil.copytree(folder, package)
    (package / "__init__.py").write_text("")
    metadata = package.parent / "leaky_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: leaky-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[twinfer.operators]\nleaky = leaky_package\n")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(registry, "_looked", False)
    registry.forget_known()
    yield package
    monkeypatch.undo()
    registry.forget_known()
    for name in [name for name in sys.modules if name.startswith("leaky_package")]:
        del sys.modules[name]


def test_an_installed_package(installed: Path) -> None:
    assert operators()[NAME].lower.__module__ == "leaky_package.leaky_integrator"
    session = Session(make_plan(model()))
    session.feed([np.ones((5, 2), np.float32)])
    session.run()
    np.testing.assert_array_equal(session.outputs()[0][1], np.float32([1.5, 1.9]))


def test_a_broken_package_is_left_out(installed: Path) -> None:
    (installed / "leaky_integrator.py").write_text("OP = 1/0")
    with pytest.warns(ToolWarning, match=r"operators of leaky_package are left out: .*leaky_integrator\.py.*ZeroDiv"):
        assert NAME not in operators()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "ADD" in operators()


@pytest.mark.parametrize("value", ["this_module_alone", "os:getcwd", "namespace_alone"])
def test_entry_points_that_name_no_module_of_a_package(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "this_module_alone.py").write_text("")
    (tmp_path / "namespace_alone").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OperatorError, match=f"the entry point own = {value} names no module in a folder of a package"):
        load_package(EntryPoint("own", value, places.GROUP))


# -- variants ----------------------------------------------------------------------------------------------------------

VARIANT = """
from twinfer.runtime.program import Call
from twinfer.runtime.variant import Variant, accept
from . import leaky_integrator

def lower(node, target):
    accept(node.input(0).shape[1] == 2, "it has not two channels")
    return leaky_integrator.lower(node, target)

VARIANT = Variant("mine", ("CUSTOM:LeakyIntegrator",), frozenset({"dsp"}), lower)
"""


def test_a_variant(folder: Path) -> None:
    (folder / "leaky_integrator_dsp.py").write_text(VARIANT)
    register(folder)
    assert [variant.name for variant in variants(NAME)] == ["mine"]
    node = model().nodes[1]
    assert lower_node(node, DSP)[1].variant == "mine"
    assert lower_node(node, GENERIC)[1].variant == "plain"
    assert lower_node(model((0.5, 0.9, 0.1)).nodes[1], DSP)[1].declined == (("mine", "it has not two channels"),)


def test_a_folder_of_variants_alone(folder: Path, tmp_path: Path) -> None:
    """A faster kernel for an operator of twinfer's own, and for one of another folder."""
    register(folder)
    other = tmp_path / "faster"
    other.mkdir()
    lines = VARIANT.replace("from . import leaky_integrator\n", "").replace("leaky_integrator.", "operator(node).")
    text = f"from twinfer.runtime.registry import operator\n{lines}"
    (other / "mine.py").write_text(text.replace('("CUSTOM:LeakyIntegrator",)', '("CUSTOM:LeakyIntegrator", "RELU")'))
    register(other)
    node = model().nodes[1]
    assert [lower_node(node, target)[1].variant for target in (DSP, GENERIC)] == ["mine", "plain"]
    assert [lower_node(model().nodes[0], target)[1].variant for target in (DSP, GENERIC)] == ["mine", "plain"]


def test_a_variant_without_a_function(folder: Path) -> None:
    (folder / "leaky_integrator_dsp.py").write_text(VARIANT.replace("}), lower)", "}), None)"))
    with pytest.raises(OperatorError, match=r"leaky_integrator_dsp\.py: lower of the variant mine is no function"):
        register(folder)


def test_a_variant_of_nothing(folder: Path) -> None:
    (folder / "leaky_integrator_dsp.py").write_text(VARIANT.replace("CUSTOM:LeakyIntegrator", "CUSTOM:Nobody"))
    with pytest.raises(OperatorError, match=r"leaky_integrator_dsp\.py: the variant mine is of CUSTOM:Nobody"):
        register(folder)


# -- what may be wrong -------------------------------------------------------------------------------------------------

STRUCT = "leaky_integrator_f32_params;"
WRONG_HEADERS = {
    "no kernel": (("TW_KERNEL(", "void body("), r"leaky_integrator\.h: it defines no kernel: TW_KERNEL"),
    "no struct": ((STRUCT, "other_params;"), r"leaky_integrator\.h: .* } leaky_integrator_f32_params; at the start"),
    "indented": (("typedef struct", "  typedef struct"), r"leaky_integrator\.h: a kernel needs a struct"),
    "type taken": ((STRUCT, f"tw_window;\ntypedef tw_window {STRUCT}"), r"leaky_integrator\.h: the type tw_window is"),
    "unknown type": (("int32_t steps", "vector steps"), r"leaky_integrator\.h: the params of .* are no plain"),
    "unknown size": (("int32_t steps", "int32_t x[SIZE], steps"), r"leaky_integrator\.h: the params of .* are no"),
    "include": (("../core/tw.h", "../../etc/passwd"), r"leaky_integrator\.h: it includes \.\./etc/passwd, which is"),
    "kernel taken": (("leaky_integrator_f32", "tw_relu_f32"), r"type tw_relu_f32_params is defined in functions/"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_HEADERS)
def test_wrong_headers(wrong: str, folder: Path) -> None:
    (old, new), message = WRONG_HEADERS[wrong]
    header = folder / "leaky_integrator.h"
    assert old in header.read_text()
    header.write_text(header.read_text().replace(old, new))
    with pytest.raises(OperatorError, match=message):
        register(folder)
    assert NAME not in operators()
    assert not {"leaky_integrator_f32"} & set(kernels_c.kernels())


def test_a_kernel_of_twinfer_s_name_and_struct(folder: Path) -> None:
    header = folder / "leaky_integrator.h"
    begin, end = header.read_text().index("typedef"), header.read_text().index("leaky_integrator_f32_params;")
    text = header.read_text()[:begin] + header.read_text()[end:].removeprefix("leaky_integrator_f32_params;")
    header.write_text(text.replace("leaky_integrator_f32", "tw_relu_f32"))
    with pytest.raises(OperatorError, match=r"the name of its kernel tw_relu_f32 is taken by twinfer"):
        register(folder)
    assert NAME not in operators()


ROW = 'OP = Op("CUSTOM:LeakyIntegrator", infer, reference, lower, cases, keeps_state=True)'
WRONG_MODULES = {
    "raises": (ROW, "raise KeyError('ups')", r"leaky_integrator\.py: importing it raised KeyError: 'ups' \(line 52\)"),
    "exits": (ROW, "raise SystemExit(3)", r"leaky_integrator\.py: importing it raised SystemExit: 3"),
    "syntax": (ROW, "OP = Op(", r"leaky_integrator\.py: importing it raised SyntaxError"),
    "no row": (ROW, "", r"leaky_integrator\.py: it defines no OP, OPS, VARIANT or VARIANTS"),
    "no Op": (ROW, "OP = 3", r"leaky_integrator\.py: it defines int where Op"),
    "no name": (ROW, "OP = Op('', infer, reference, lower, cases)", r"the name of its operator is ''"),
    "no function": (ROW, "OP = Op('CUSTOM:X', infer, None, lower, cases)", r"reference of CUSTOM:X is no function"),
    "ours": (NAME, "CONV_2D", r"leaky_integrator\.py: the name CONV_2D is taken by twinfer itself"),
    "control": (NAME, "WHILE", r"leaky_integrator\.py: the name WHILE is taken by twinfer itself"),
}


@pytest.mark.parametrize("wrong", WRONG_MODULES)
def test_wrong_modules(wrong: str, folder: Path) -> None:
    old, new, message = WRONG_MODULES[wrong]
    module = folder / "leaky_integrator.py"
    good = module.read_text()
    module.write_text(good.replace(old, new))
    with pytest.raises(OperatorError, match=message):
        register(folder)
    assert NAME not in operators()
    module.write_text(f"{good}\n")
    register(folder)
    assert NAME in operators(), "mended, it is read again"


def test_wrong_folders(folder: Path) -> None:
    for path in (folder / "nothing", folder / "leaky_integrator.py"):
        with pytest.raises(OperatorError, match="is no folder; name the one that holds"):
            register(path)
    (folder / "leaky_integrator.py").rename(folder / "_leaky_integrator.py")
    with pytest.raises(OperatorError, match="holds no operator"):
        register(folder)


def test_the_same_names_in_another_folder(folder: Path, tmp_path: Path) -> None:
    register(EXAMPLE)
    with pytest.raises(OperatorError, match="another folder of operators has a header leaky_integrator"):
        register(folder)
    (folder / "leaky_integrator.h").unlink()
    with pytest.raises(OperatorError, match=r"the name CUSTOM:LeakyIntegrator is taken by .*docs/examples/leaky"):
        register(folder)
    shutil.copy(EXAMPLE / "leaky_integrator.h", folder / "other.h")
    with pytest.raises(OperatorError, match=r"other\.h: the type leaky_integrator_f32_params is defined in custom/"):
        register(folder)


def test_a_kernel_that_does_not_compile(folder: Path) -> None:
    header = folder / "leaky_integrator.h"
    header.write_text(header.read_text().replace("(void)scratch;", "int32_t narrow = 1.5F;"))
    with pytest.raises(ToolError, match=r"(?s)my_operators: its kernels cannot be compiled: .*custom/leaky_integrator"):
        register(folder)
    assert NAME not in operators()


def test_compiled_kernels_that_cannot_be_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = tmp_path / "kernels.so"
    text.write_text("no library")
    monkeypatch.setattr(library, "built", lambda *_: text)
    with pytest.raises(ToolError, match=r"my_operators: its compiled kernels cannot be loaded: .*kernels\.so"):
        register(folder)
    assert NAME not in operators()


def test_a_struct_of_another_layout(folder: Path) -> None:
    header = folder / "leaky_integrator.h"
    text = header.read_text().replace("int32_t steps, channels;", "int32_t steps, channels; int8_t more;")
    header.write_text(text.replace("/* in:", "#pragma pack(1)\n/* in:"))
    with pytest.raises(OperatorError, match="leaky_integrator_f32_params has attributes or pragmas"):
        register(folder)


def test_without_a_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolError, match=r"my_operators: its kernels cannot be compiled: no C compiler found"):
        register(folder)


RAISING = {
    "infer": ("return [x.shape]", "return [x.form]", r"infer of CUSTOM:LeakyIntegrator raised AttributeError"),
    "params": ('"steps": steps', '"stops": steps', r"lower of .* missing \['steps'\], unknown .* \(line \d+\)"),
    "kernel": ('Call("leaky', 'Call("lucky', r"lower of .* no header defines the kernel lucky_integrator_f32"),
}


@pytest.mark.parametrize("where", RAISING)
def test_code_that_raises(where: str, folder: Path) -> None:
    old, new, message = RAISING[where]
    module = folder / "leaky_integrator.py"
    assert old in module.read_text()
    module.write_text(module.read_text().replace(old, new))
    register(folder)
    with pytest.raises(OperatorError, match=rf"leaky_integrator\.py: {message}"):
        make_plan(model())
