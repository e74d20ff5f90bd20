"""The cache folder: what is damaged or foreign there is made anew, and what nobody works on goes."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny

from twinfer.aot.build.host import compile_plans
from twinfer.runtime import cache, tools
from twinfer.runtime.errors import ToolError
from twinfer.runtime.plan import tuned
from twinfer.runtime.run import isa
from twinfer.runtime.tools import built

#: What may lie in a kept file's place -> how it comes there. The file was whole before.
Damage = Callable[[Path], object]


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.unlink()
    (path / "in it").mkdir(parents=True)


def linked(path: Path) -> None:
    """A link to a file that is whole: somebody else's, perhaps."""
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def changed(at: float, mask: int) -> Damage:
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(len(content) - 1, int(at * len(content)))] ^= mask
        path.write_bytes(content)

    return change


DAMAGE: dict[str, Damage] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "without the seal": lambda path: path.write_bytes(cache.unsealed(path)),
    "a byte more": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "zeros behind the first page": lambda path: path.write_bytes(
        path.read_bytes()[:4096].ljust(path.stat().st_size, b"\0")
    ),
    "text": lambda path: path.write_text("#!/bin/sh\n" * 5000),
    "a bit in the middle": changed(0.5, 16),
    "the mark": lambda path: path.write_bytes(path.read_bytes()[:-20] + b"\0twinfex" + path.read_bytes()[-12:]),
    "the size": lambda path: path.write_bytes(path.read_bytes()[:-12] + b"\1" + path.read_bytes()[-11:]),
    "the last bit": changed(1, 128),
    "a pipe": a_pipe,
    "a folder": a_folder,
    "a link": linked,
    "a link to a device": device,
    "unreadable": lambda path: path.chmod(0),
}


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "twinfer"


def copied(text: str = "some text") -> Path:
    return built({"a": text}, ("cp", "a", "b"), "b", "cp")


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_built_anew(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied("text " * 4000)
    whole = path.read_bytes()
    DAMAGE[damage](path)
    assert copied("text " * 4000) == path
    assert stat.S_ISREG(path.lstat().st_mode)
    assert path.read_bytes() == whole
    monkeypatch.setattr(tools, "run_tool", lambda *_: pytest.fail("it was built although it was there"))
    assert cache.unsealed(copied("text " * 4000)) == b"text " * 4000


def test_a_damaged_library_is_built_anew(folder: Path) -> None:
    """In a process of its own, which would die of it."""
    code = f"import sys; sys.path.append({str(Path(tiny.__file__).parent)!r}); import tiny; "
    code += "from twinfer.aot.build.host import *; "
    code += "compile_plans({'m': tiny.dense()}, flags=('-O0', '-shared', '-fPIC'))['m'].run()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
    (library,) = folder.glob("*.so")
    whole = library.read_bytes()
    DAMAGE["half"](library)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
    assert len(library.read_bytes()) == len(whole)


def test_settings_of_tune_are_sealed_too() -> None:
    computer = isa.this_computer()
    assert tuned.load(computer) == {}
    path = tuned.save(computer, {"k": tuned.Setting("v", 3)})
    assert tuned.load(computer) == {"k": tuned.Setting("v", 3)}
    for damage in ("half", "a bit in the middle", "a pipe"):
        DAMAGE[damage](path)
        assert tuned.load(computer) == {}
        tuned.save(computer, {"k": tuned.Setting("v", 3)})


def test_what_cannot_be_loaded_is_a_tool_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("failed to map segment from shared object")

    monkeypatch.setattr(ctypes, "CDLL", refused)
    with pytest.raises(ToolError, match=r"failed to map segment.*XDG_CACHE_HOME"):
        compile_plans({"m": tiny.dense()})


def test_a_full_disk(folder: Path) -> None:
    def make(work: Path) -> Path:
        (work / "half").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(ToolError, match=r"cannot write to the cache folder .*twinfer: .*No space.*set XDG_CACHE_HOME"):
        cache.store(cache.folder() / "kept", make)
    assert not any(folder.iterdir())


@pytest.mark.parametrize("text", ["", "3", "[1]", '{"k": 3}', '{"k": {"colour": 1}}', '{"k": {"block": 1}'])
def test_settings_of_another_form_are_none(text: str) -> None:
    """Sealed as they are: of a later version of twinfer, say."""

    def make(work: Path) -> Path:
        (work / "settings").write_text(text)
        return work / "settings"

    computer = isa.this_computer()
    cache.store(tuned.file(computer), make)
    assert tuned.load(computer) == {}
    tuned.save(computer, {"k": tuned.Setting("v", 3)})
    assert tuned.load(computer) == {"k": tuned.Setting("v", 3)}


def test_new_folders_are_this_user_s_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        cache.folder()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o702, 0o777, 0o1777, 0o720])
def test_a_folder_that_others_may_write_to_is_not_used(mode: int, folder: Path) -> None:
    path = copied()
    folder.chmod(mode)
    with pytest.raises(ToolError, match=r"others may write to the cache folder .*chmod go-w.*XDG_CACHE_HOME"):
        copied()
    folder.chmod(0o755)
    assert copied() == path


def test_another_user_s_folder_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(ToolError, match=rf"belongs to another user \({me}\) and is not used.*XDG_CACHE_HOME"):
        copied()


def test_another_user_s_file_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied()
    assert cache.load(path) is not None
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        me = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert cache.load(path) is None


def test_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ToolError, match=r"no cache folder .*XDG_CACHE_HOME"):
        copied()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(cache, "cache_folder", lambda: Path("~no such user").expanduser())
    with pytest.raises(ToolError, match=r"no cache folder.*XDG_CACHE_HOME"):
        copied()


def gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        return process.pid


HOUR = 3600


@pytest.mark.parametrize(
    ("alive", "age", "stays"),
    [
        (True, 0, True), (True, 5 * HOUR, True), (True, 8 * 24 * HOUR, False),
        (False, 0.5 * HOUR, True), (False, 1.5 * HOUR, False), (False, 8 * 24 * HOUR, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_killed_processes_have_left_is_swept(kind: str, alive: bool, age: float, stays: bool) -> None:
    left = cache.folder() / f"work-{os.getpid() if alive else gone()}-abc"
    if kind == "folder":
        (left / "src").mkdir(parents=True)
        (left / "src" / "library.c").touch()
    else:
        left.touch()
    other = cache.folder() / "another-1-abc"
    other.mkdir()
    for each in (left, other):
        os.utime(each, (time.time() - age, time.time() - age))
    copied()
    assert (left.exists(), other.exists()) == (stays, True)


def test_a_killed_build_leaves_nothing_that_is_taken(folder: Path) -> None:
    """Only a work folder, which the name of its process is part of."""
    code = "from twinfer.runtime.tools import built; built({}, ('sh', '-c', 'echo half > b; kill -9 $PPID'), 'b', '')"
    done = subprocess.Popen([sys.executable, "-c", code])
    assert done.wait(60) == -9
    (left,) = folder.iterdir()
    assert left.name.startswith(f"work-{done.pid}-")
    os.utime(left, (0, 0))
    copied()
    assert left not in folder.iterdir()


def test_content_is_on_the_disk_before_it_is_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash of the machine leaves the old file or the new one."""
    done = list[str]()
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, name=name, real=real: (done.append(name), real(*given))[1])
    copied()
    assert done == ["fsync", "replace"]


def test_kept_content_is_aligned() -> None:
    data = cache.load(copied("x" * 1000))
    assert data is not None
    assert data.ctypes.data % 64 == 0
    np.testing.assert_array_equal(data, np.full(1000, ord("x"), np.uint8))


def test_several_processes_build_the_same(folder: Path) -> None:
    """Over a damaged file, all at once, and all of them get a good one."""
    copied("b" * 5000).write_bytes(b"damaged")
    code = (
        "from twinfer.runtime.tools import built; from twinfer.runtime import cache\n"
        "for _ in range(5): assert cache.unsealed(built({'a': 'b' * 5000}, ('cp', 'a', 'b'), 'b', 'cp')) == b'b' * 5000"
    )
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0] * 3
    assert len(list(folder.iterdir())) == 1
