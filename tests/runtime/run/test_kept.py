"""Models that were planned before: the same results without planning, and nothing wrong of a file that is not right."""

from __future__ import annotations

import io
import os
import pickle
import re
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CorpusModel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from row_nets import network
from tiny import passing

from twinfer import kernels_c
from twinfer.aot.build.compiled import CompiledModel
from twinfer.runtime import cache, registry
from twinfer.runtime.custom import places
from twinfer.runtime.errors import InvalidArgumentError, ModelError, ModelWarning, TwinferError
from twinfer.runtime.plan import make
from twinfer.runtime.run import kept, kept_file
from twinfer.runtime.run.interpreter import Interpreter

SOURCES = Path(kernels_c.__file__).resolve().parents[1] / "runtime"

Change = Callable[[pytest.MonkeyPatch, Path], object]


@pytest.fixture(autouse=True)
def keeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Plans are kept, in a folder of the test's own."""
    monkeypatch.delenv("TWINFER_KEEP_PLANS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small model's file."""
    path = tmp_path / "net.tflite"
    network(3).save(path)
    return path


@pytest.fixture
def plannings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of every graph that is planned from now on."""
    names: list[str] = []
    whole = make.make_plan

    def counted(graph: Any, *rest: Any) -> Any:
        names.append(graph.name)
        return whole(graph, *rest)

    monkeypatch.setattr(make, "make_plan", counted)
    return names


def run(path: Path, **options: Any) -> list[Any]:
    """The outputs of a model for inputs that are always the same."""
    interpreter = Interpreter(model_path=path, **options)
    interpreter.allocate_tensors()
    return outputs(interpreter)


def outputs(interpreter: Interpreter) -> list[Any]:
    rng = np.random.default_rng(7)
    for about in interpreter.get_input_details():
        if about["dtype"] not in (np.bytes_, np.object_):
            whole = rng.integers(-100, 100, about["shape"])
            interpreter.set_tensor(about["index"], whole.astype(about["dtype"]))
    interpreter.invoke()
    return [interpreter.get_tensor(about["index"]) for about in interpreter.get_output_details()]


def files() -> list[Path]:
    return sorted(cache.folder("plans").iterdir()) if cache.folder("plans").exists() else []


def equal(first: list[Any], second: list[Any]) -> bool:
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(first, second, strict=True))


def test_the_second_time_nothing_is_planned(model: Path, plannings: list[str]) -> None:
    first = run(model)
    assert plannings == ["net"]
    assert equal(first, run(model))
    assert plannings == ["net"]
    assert len(files()) == 1


def test_a_process_that_plans_nothing_imports_no_planner(model: Path) -> None:
    code = (
        "import sys, twinfer; i = twinfer.Interpreter(sys.argv[1]); i.allocate_tensors(); i.invoke();"
        "print(*(name for name in sys.modules if name.startswith('twinfer.')))"
    )
    imported = [subprocess.check_output([sys.executable, "-c", code, str(model)], text=True).split() for _ in range(2)]
    for planner in ("twinfer.runtime.plan.make", "twinfer.runtime.read.tflite", "twinfer.runtime.registry"):
        assert planner in imported[0]
        assert planner not in imported[1]


@pytest.mark.corpus("app", "op", "derived")
def test_every_model_is_kept(corpus_model: CorpusModel) -> None:
    """The same plan, and the same bits."""
    with warnings.catch_warnings(record=True) as first_said:
        warnings.simplefilter("always")
        try:
            first = Interpreter(model_path=corpus_model.path)
            first.allocate_tensors()
        except TwinferError as error:
            assert not files()
            with pytest.raises(type(error)):
                Interpreter(model_path=corpus_model.path).allocate_tensors()
            return
    assert len(files()) == 1
    with warnings.catch_warnings(record=True) as said, pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr(make, "make_plan", None)
        second = Interpreter(model_path=corpus_model.path)
        second.allocate_tensors()
    assert [str(each.message) for each in said] == [str(each.message) for each in first_said]
    assert second.get_tensor_details().__repr__() == first.get_tensor_details().__repr__()
    assert (second.plan.arena_bytes, second.plan.constant_bytes) == (first.plan.arena_bytes, first.plan.constant_bytes)
    assert equal(outputs(first), outputs(second))


def test_repaired_models_warn_every_time(corpus: Path) -> None:
    for _ in range(2):
        with pytest.warns(ModelWarning, match="14 1-D tensors") as said:
            run(corpus / "models/tflm_person_detect.tflite")
        assert said[0].filename == __file__
    assert len(files()) == 1


def test_kept_values_are_read_only(model: Path) -> None:
    run(model)
    interpreter = Interpreter(model_path=model)
    interpreter.allocate_tensors()
    arrays = [constant.array for constant in interpreter.plan.constants]
    arrays += [tensor.data for tensor in interpreter.plan.graph.tensors if tensor.data is not None]
    assert arrays
    assert not any(array.flags.writeable for array in arrays)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_damaged_file_is_made_anew(model: Path, plannings: list[str], data: st.DataObject) -> None:
    right = run(model)
    (file,) = files()
    whole = file.read_bytes()
    cut = data.draw(st.booleans())
    at = data.draw(st.integers(0, len(whole) - 1))
    if cut:
        file.write_bytes(whole[:at])
    else:
        change = data.draw(st.integers(1, 255))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
    plannings.clear()
    assert equal(right, run(model))
    assert plannings == ["net"]
    assert file.read_bytes() == whole
    plannings.clear()
    assert equal(right, run(model))
    assert not plannings


def _instead(file: Path, part: int, other: bytes) -> None:
    """Another content of a part of a kept file, with the seal that it needs."""
    parts = [bytes(each) for each in kept_file.parts_of(memoryview(cache.unsealed(file)))]
    parts[part] = other

    def make(work: Path) -> Path:
        (work / "other").write_bytes(kept_file.joined(parts))
        return work / "other"

    cache.store(file, make)


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_a_kept_file_calls_nothing_of_its_own(model: Path, tmp_path: Path, plannings: list[str]) -> None:
    right, mark = run(model), tmp_path / "mark"
    _instead(files()[0], 2, pickle.dumps(Evil(mark)))
    assert equal(right, run(model))
    assert len(plannings) == 2
    assert not mark.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "mkdir"),
        ("twinfer.runtime.run.kept", "os.mkdir"),
        ("twinfer.runtime.run.kept", "os"),
        ("twinfer.runtime.run.kept", "Path"),
        ("twinfer.runtime.registry", "register"),
        ("twinfer.runtime.run.kept", "_trim"),
        ("numpy", "load"),
        ("numpyish", "dtype"),
        ("twinfer.runtime.run.interpreter", "Interpreter"),
    ],
)
def test_what_is_no_value_of_a_plan(module: str, name: str) -> None:
    with pytest.raises(pickle.UnpicklingError, match=re.escape(name)):
        kept_file.Loader(io.BytesIO(b"")).find_class(module, name)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("twinfer.runtime.graph", "Tensor"),
        ("twinfer.runtime.constant", "Role"),
        ("twinfer.runtime.run.kept_file", "_read_only"),
        ("numpy", "dtype"),
    ],
)
def test_values_of_plans(module: str, name: str) -> None:
    assert kept_file.Loader(io.BytesIO(b"")).find_class(module, name).__name__ == name


@pytest.mark.parametrize("part", [0, 1])
def test_names_of_files_may_be_those_of_other_models(model: Path, plannings: list[str], part: int) -> None:
    """Their names are short checksums: what a file was planned for and the model's bytes are compared whole."""
    right = run(model)
    _instead(files()[0], part, b"of another model")
    assert equal(right, run(model))
    assert len(plannings) == 2


def test_pickles_of_other_shapes(model: Path, plannings: list[str]) -> None:
    right = run(model)
    for other in (b"", pickle.dumps(5), pickle.dumps((1, 2)), struct.pack("<I", 5)):
        _instead(files()[0], 2, other)
        plannings.clear()
        assert equal(right, run(model))
        assert plannings == ["net"]


CHANGES: dict[str, Change] = {
    "another level of instructions": lambda patch, _: patch.setenv("TWINFER_ISA", "base"),
    "another version of twinfer": lambda patch, _: patch.setattr(kept, "_version", lambda: "another"),
    "another name": lambda _, path: path.rename(path.with_name("other.tflite")),
    "another content": lambda _, path: network(4).save(path),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_plan_depends_on(
    model: Path, plannings: list[str], change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(model)
    CHANGES[change](monkeypatch, model)
    run(next(model.parent.glob("*.tflite")))
    assert len(plannings) == 2
    assert len(files()) == 2


def test_options_have_plans_of_their_own(model: Path, plannings: list[str]) -> None:
    for _ in range(2):
        assert equal(run(model), run(model, experimental_preserve_all_tensors=True))
    assert len(plannings) == 2
    assert len(files()) == 2


def test_the_version_knows_every_source() -> None:
    for module in (kept, make, kernels_c._ffi):
        path = Path(str(module.__file__)).resolve()
        about = path.stat()
        assert repr((str(path), about.st_size, about.st_mtime_ns, about.st_ctime_ns)) in kept._version()


NOT_KEPT: dict[str, tuple[Change, dict[str, Any]]] = {
    "watched": (lambda patch, _: None, {"guard": True}),
    "tuned": (lambda patch, _: None, {"tuned": True}),
    "switched off": (lambda patch, _: patch.setenv(kept.VARIABLE, "0"), {}),
    "operators of one's own": (lambda patch, _: patch.setattr(kept, "_own_operators", lambda: True), {}),
    "too large": (lambda patch, _: patch.setattr(kept, "MOST_OF_A_MODEL", 10), {}),
    "too large when planned": (lambda patch, _: patch.setattr(kept, "MOST_OF_A_FILE", 10_000), {}),
}


@pytest.mark.parametrize("why", NOT_KEPT)
def test_not_kept(model: Path, plannings: list[str], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, options = NOT_KEPT[why]
    change(monkeypatch, model)
    assert equal(run(model, **options), run(model, **options))
    assert len(plannings) == 2
    assert not files()


def test_operators_that_come_before_planning(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked when a plan is kept is what was planned with."""
    interpreter = Interpreter(model_path=model)
    monkeypatch.setattr(registry, "has_folders", lambda: True)
    interpreter.allocate_tensors()
    assert not files()


def test_sources_that_are_newer_than_the_process(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may run what they were before."""
    monkeypatch.setattr(kept, "BEGUN", max(source.changed for source in kept._sources(SOURCES)) - 1)
    kept._version.cache_clear()
    try:
        assert kept._version() == ""
        run(model)
        assert not files()
    finally:
        kept._version.cache_clear()


def test_what_counts_is_when_a_source_came_to_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what time is written on it: pip gives files the times of the archive, and clocks of others may be ahead."""
    old, new = kept.BEGUN - 10**12, kept.BEGUN + 1
    for written, changed, known in ((old, new, False), (new, old, True), (old, old, True), (new, new, False)):
        one = [kept.Source("early.py", 1, old, old), kept.Source("module.py", 1, written, changed)]
        monkeypatch.setattr(kept, "_sources", lambda folder, one=one: iter(one))
        kept._version.cache_clear()
        try:
            assert bool(kept._version()) == known
        finally:
            kept._version.cache_clear()


def test_no_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernels_c, "__file__", str(tmp_path / "twinfer" / "kernels_c" / "__init__.py"))
    kept._version.cache_clear()
    try:
        assert kept._version() == ""
    finally:
        kept._version.cache_clear()


def test_a_link_to_nothing_is_no_source(tmp_path: Path) -> None:
    """Editors leave some."""
    (tmp_path / ".#lock.py").symlink_to("nobody@nowhere")
    (tmp_path / "module.py").touch()
    assert [Path(source.path).name for source in kept._sources(tmp_path)] == ["module.py"]


def test_no_home(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    right = run(model)
    monkeypatch.setattr(cache, "cache_folder", homeless)
    assert equal(right, run(model))


def test_own_operators(monkeypatch: pytest.MonkeyPatch, own_operators: None) -> None:
    assert not kept._own_operators()
    monkeypatch.setenv("TWINFER_OPERATORS", "/somewhere")
    assert kept._own_operators()
    monkeypatch.setenv("TWINFER_OPERATORS", "")
    monkeypatch.setattr(places, "packages_may_offer", lambda: True)
    assert kept._own_operators()


def test_a_folder_that_can_only_be_read(model: Path, monkeypatch: pytest.MonkeyPatch, plannings: list[str]) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("read-only file system")

    right = run(model)
    monkeypatch.setattr(os, "utime", refused)
    assert equal(right, run(model))
    assert len(plannings) == 1


def test_a_folder_that_cannot_be_written(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert equal(run(model), run(model))


def test_what_cannot_be_pickled(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "_read_only", lambda values: values)  # a local function has no name to be found by
    assert equal(run(model), run(model))
    assert not files()


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [tmp_path / f"net{i}.tflite" for i in range(4)]
    for i, path in enumerate(models):
        network(i).save(path)
        run(path)
        for file in files():
            os.utime(file, ns=(os.stat(file).st_atime_ns, os.stat(file).st_mtime_ns - 10**9))
    run(models[0])  # a use
    sizes = {file: file.stat().st_size for file in files()}
    oldest = min(files(), key=lambda file: file.stat().st_mtime_ns)
    monkeypatch.setattr(kept, "MOST_OF_ALL", sum(sizes.values()) - 1)
    (cache.folder("plans") / "folder").mkdir()
    kept._trim(cache.folder("plans"))
    assert set(files()) == set(sizes) - {oldest} | {cache.folder("plans") / "folder"}


def test_keeping_a_plan_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps one takes away those that were not used for longest."""
    paths = [tmp_path / f"net{i}.tflite" for i in range(3)]
    for i, path in enumerate(paths):
        network(i).save(path)
    run(paths[0])
    (old,) = files()
    os.utime(old, ns=(0, 0))
    run(paths[1])
    (kept_one,) = {*files()} - {old}
    monkeypatch.setattr(kept, "MOST_OF_ALL", old.stat().st_size + kept_one.stat().st_size)
    run(paths[2])
    assert old not in files()
    monkeypatch.setattr(kept, "MOST_OF_ALL", 0)
    for file in files():
        file.unlink()
    run(paths[0])
    assert not files()


def test_resized_inputs_are_planned(tmp_path: Path, plannings: list[str]) -> None:
    path = tmp_path / "one.tflite"
    passing().graph.save(path)
    run(path)
    interpreter = Interpreter(model_path=path)
    at = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(at, [1, 3, 10])
    interpreter.allocate_tensors()
    assert len(plannings) == 2
    assert list(interpreter.get_input_details()[0]["shape"]) == [1, 3, 10]
    interpreter.resize_tensor_input(at, [1, 6, 5])
    interpreter.allocate_tensors()
    assert list(interpreter.get_input_details()[0]["shape"]) == [1, 6, 5]


def test_the_compiled_twin_takes_the_same_plan(model: Path, plannings: list[str]) -> None:
    right = run(model)
    compiled = CompiledModel(model_path=model)
    compiled.allocate_tensors()
    assert plannings == ["net"]
    assert equal(right, outputs(compiled))


def test_errors_are_the_same_every_time(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.tflite"
    damaged.write_bytes(b"\x1c\0\0\0TFL3" + bytes(40))
    for _ in range(2):
        with pytest.raises(ModelError, match="damaged"):
            Interpreter(model_path=damaged)
        with pytest.raises(InvalidArgumentError, match="no such file"):
            Interpreter(model_path=tmp_path / "absent.tflite")
