"""What analysers say of emitted C. ``python -m twinfer.bench.lab.analysers [MODEL …]`` shows it.

cppcheck with MISRA C:2012, clang-tidy, clang's static analyser, gcc's, and all warnings of clang read the C of some
models in both modes. docs/misra.md lists the rules of MISRA that are deviated from; tests/aot/test_analysers.py
compares that list with what is found here.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from twinfer.aot.build.project import write_project
from twinfer.bench.models.source import Source, load
from twinfer.kernels_c.ffi_build import ARITHMETIC
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.target import DSP, GENERIC, MVE, Target

#: Warnings of clang's -Weverything that are not for this code -> why.
UNWANTED = {
    "declaration-after-statement": "C99 has them anywhere",
    "padded": "params have the order in which they are explained",
    "used-but-marked-unused": "a program may leave such a function out, and another call it",
    "unsafe-buffer-usage": "C reaches arrays through pointers",
    "covered-switch-default": "MISRA asks for the default",
    "float-equal": "comparing floats is what some operators do",
    "c++98-compat": "C11 and C++11 are what it is for",
    "comma": "steps that belong together stand in one statement",
    "extra-semi-stmt": "macros that are whole loops are used as statements",
    "bad-function-cast": "the result of round() becomes an integer",
    "switch-default": "a switch over an enumeration has all its values",
}

#: What is found and accepted: the rule and the end of the file's path -> why.
ACCEPTED = {
    ("shiftTooManyBitsSigned", ""): "right shifts keep the sign: TW_NEED in kernels/core/tw.h checks it",
    ("bugprone-implicit-widening-of-multiplication-result", ""): "offsets in the arena are below 2^31",
    ("uninitvar", "dense/fully_connected_mve.h"): "the tile writes all four values before they are copied",
    ("legacyUninitvar", "dense/fully_connected_mve.h"): "likewise",
    ("uninitvar", "move/move.h"): "a loop writes as much of the value as is read",
    ("unassignedVariable", "wide/lanes_avx2.h"): "an intrinsic writes the array",
    ("-Wconditional-uninitialized", "mve/mve_s8.h"): "the loop writes all 16 lanes",
    ("-Wanalyzer-use-of-uninitialized-value", "core/sums.h"): "as many values are written as are read",
    ("clang-analyzer-core.NullDereference", "recurrent/lstm.h"): "norm is set only where its factors are given",
    ("clang-analyzer-core.NullDereference", "recurrent/vector.h"): "extra is set only where its weights are given",
    ("variableScope", "dense/fully_connected_wide.h"): "channels holds pointers to these arrays",
}

_MISRA = re.compile(r"misra-c2012-([\d.]+)")
_FOUND = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):(?:\d+:)? (?:\w+ ?\w*): (?P<text>.*) \[(?P<rule>[^\]]+)\]$")


@dataclass(frozen=True, order=True)
class Finding:
    """One thing that a ``tool`` says: its name for the ``rule``, the place and the words."""

    tool: str
    rule: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.file}:{self.line}: {self.text} [{self.rule}]"


def tools(name: str) -> dict[str, list[str]]:
    """The command of every analyser for the C file of a model."""
    dialect = [*ARITHMETIC, "-I."]
    quiet = [f"-Wno-{warning}" for warning in UNWANTED]
    kinds = "clang-analyzer-*,bugprone-*,portability-*,-bugprone-easily-swappable-parameters"
    kinds += ",-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling"  # memcpy, for C11's Annex K
    place = "--template={file}:{line}: {severity}: {message} [{id}]"
    asked = "--enable=warning,style,performance,portability"
    return {
        "cppcheck": [
            "cppcheck",
            "--addon=misra",
            asked,
            "--std=c11",
            "--platform=unix32",
            "-D__GNUC__=12",
            "-q",
            place,
            f"{name}.c",
        ],
        "clang-tidy": ["clang-tidy", "--quiet", f"--checks=-*,{kinds}", f"{name}.c", "--", *dialect],
        "gcc": ["gcc", "-fanalyzer", "-O1", *dialect, "-c", f"{name}.c", "-o", "/dev/null"],
        "clang": ["clang", "-Weverything", *quiet, *dialect, "-fsyntax-only", f"{name}.c"],
    }


def analysed(source: Source, target: Target, mode: Mode, only: Sequence[str] = ()) -> list[Finding]:
    """What the analysers, or ``only`` some, say of a model's C."""
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
        folder = Path(work) / "c"
        plan = make_plan(source.graph, target, options=Options(mode=mode))
        write_project(plan, "model", folder)
        found: list[Finding] = []
        for tool, command in tools("model").items():
            if not only or tool in only:
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                found += findings(tool, done.stdout + done.stderr)
        return sorted(set(found))


def findings(tool: str, said: str) -> Iterator[Finding]:
    """The findings in the words of a tool."""
    for line in said.splitlines():
        if match := _FOUND.match(line):
            yield Finding(tool, match["rule"], match["file"], int(match["line"]), match["text"])


def accepted(finding: Finding) -> bool:
    """Whether it is one of ``ACCEPTED``."""
    return any(finding.rule == rule and finding.file.endswith(file) for rule, file in ACCEPTED)


def misra_rule(finding: Finding) -> str | None:
    """The rule of MISRA that it is about, such as 12.1; None for another finding."""
    match = _MISRA.search(finding.rule)
    return match[1] if match else None


#: Models whose C is analysed: convolutions, floats, recurrent layers, weights that are coded or hybrid, state, flow.
MODELS = ("kws_int8", "vww_int8", "ic_int8", "ad01_int8")
CORPUS = (
    "mlp_kws_hybrid",
    "mlp_ad01_float",
    "tflm_trained_lstm",
    "mww_okay_nabu_2",
    "tflm_micro_speech_quantized",
    "tmaix_mnist_resnet_q",
)
TARGETS: tuple[Target, ...] = (GENERIC, DSP, MVE)
MODES: tuple[Mode, ...] = ("compiled", "interpreted")


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the findings, and count those about MISRA by rule."""
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.lab.analysers", description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL")
    asked = parser.parse_args(arguments)
    cases = [*product(map(load, asked.models), TARGETS, MODES)]
    console = Console()
    with ThreadPoolExecutor(max_workers=2) as pool:
        lists = pool.map(lambda case: analysed(*case), cases)
        shown = track(lists, "analysing", len(cases), console=Console(stderr=True))
        found = {finding for each in shown for finding in each}
    table = Table("rule of MISRA C:2012", "places", box=None)
    rules = Counter(rule for finding in found if (rule := misra_rule(finding)))
    for rule, places in sorted(rules.items(), key=lambda item: [int(part) for part in item[0].split(".")]):
        table.add_row(rule, str(places))
    console.print(table)
    for finding in sorted(found):
        if misra_rule(finding) is None and not accepted(finding):
            console.print(str(finding), markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
