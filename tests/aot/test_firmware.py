"""The example of a whole firmware is built and run, and its outputs are the interpreter's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from needs import ROOT, deep_but, need_tools

import twinfer
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.graph import Array

EXAMPLE = ROOT / "docs" / "examples" / "firmware"
CORES = ("cortex-m4", "cortex-m55", "cortex-m0plus")
LEVELS = ("-O2", "-Os", "-O3", "-Og", "-O2 -flto")


def wanted(model: Path, factor: int) -> list[int]:
    """What the interpreter gives for the input that main.c makes."""
    interpreter = twinfer.Interpreter(model_path=str(model))
    interpreter.allocate_tensors()
    (x,), (y,) = interpreter.get_input_details(), interpreter.get_output_details()
    values: Array = (np.arange(np.prod(x["shape"])) * factor).astype(np.uint8).view(np.int8)
    interpreter.set_tensor(x["index"], values.reshape(x["shape"]))
    interpreter.invoke()
    return [int(each) for each in interpreter.get_tensor(y["index"]).ravel()]


def make(folder: Path, *words: str) -> str:
    own = (f"TWINFER={sys.executable} -m twinfer", f"PYTHON={sys.executable}")
    command = ["make", "-s", "-C", str(folder), *own, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr  # the console of QEMU is its standard error


@pytest.mark.parametrize(("core", "level"), deep_but(product(CORES, LEVELS), ("cortex-m4", "-Og")))
def test_all_parts_give_the_interpreters_bits(core: str, level: str, tmp_path: Path) -> None:
    need_tools("arm-none-eabi-gcc", "qemu-system-arm")
    folder = tmp_path / "firmware"
    shutil.copytree(EXAMPLE, folder)
    lines = make(folder, "run", f"TARGET={core}", f"CFLAGS={level} -Wall -Wextra -Werror").splitlines()
    said = dict(line.split(" ", 1) for line in lines if " " in line)
    ad01 = tmp_path / "ad01.tflite"
    ad01.write_bytes(twinfer.write(builtin()["ad01_int8"]()))
    old, new, sound = (wanted(path, factor) for path, factor in (
        (folder / "digits.tflite", 37), (folder / "retrained.tflite", 37), (ad01, 73)))  # fmt: skip
    parts = {"cooperative": old, "hooked": sound, "factory": old, "updated": new, "paged": sound}
    assert {part: [int(each) for each in said[part].split()] for part in parts} == parts
    assert old != new
    told = {"weights": "in their section", "fed": "yes", "cancelled:": "cancelled by the hook"}
    told |= {"damaged:": "the weights are damaged", "fetched": "as stated"}
    assert {key: said[key] for key in told} == told
