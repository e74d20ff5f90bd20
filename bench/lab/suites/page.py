"""What is kept of the suites' outcomes, and docs/coverage.md, which is made of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from twinfer.bench.lab.suites.suite import KINDS, Outcome

KEPT = Path(__file__).resolve().parents[1] / "data" / "coverage"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "coverage.md"

#: Suite -> what it is, and what its cases are of.
TITLES = {
    "onnx": ("ONNX's backend tests", "operators"),
    "keras": ("Keras", "layers and functions"),
    "torch": ("PyTorch", "modules and functions"),
    "ort": ("Files of ONNX Runtime's tools", "tools"),
    "strangers": ("Models out of packages", "packages"),
}


ABOUT = """\
# What converts

Models that others wrote, converted to .tflite, run by twinfer and by LiteRT, and compared with the values that their
authors or their own runtime give. `make suites` writes this page anew.

*Passed*: right in both. *Ours alone*: right here; LiteRT lacks an operator or computes other values. *Refused*: an
error says what is missing. Floats are right within 1e-4 of the range of the values that are expected, integers if they
are equal. What ONNX Runtime quantised may be two steps off, as TFLite rounds otherwise, or as far as quantising moved
it; what it quantises at run time 2 % of the range."""


def read(suite: str) -> list[Outcome]:
    """What became of a suite's cases when it ran last; empty if it never did."""
    path = KEPT / f"{suite}.tsv"
    lines = path.read_text().splitlines() if path.exists() else []
    return [Outcome(*line.split("\t")) for line in lines]


def write(suite: str, outcomes: Iterable[Outcome]) -> None:
    """Keeps outcomes, a line each: name, subject, kind, cause, why it does not count."""
    KEPT.mkdir(exist_ok=True)
    rows = sorted((o.name, o.subject, o.kind, _short(o.cause), o.beside) for o in outcomes)
    (KEPT / f"{suite}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))


def _short(cause: str) -> str:
    """A cause in one line, without what differs from case to case."""
    line = re.sub(r"\s+", " ", cause)
    return re.sub(r"error [0-9.e+-]+ of", "error of", line)[:200].strip()


def text(suites: Mapping[str, Sequence[Outcome]]) -> str:
    """The page in Markdown."""
    lines = [
        *ABOUT.splitlines(),
        "",
        "| suite | cases | " + " | ".join(KINDS) + " | right | subjects with a right case |",
        "|---|---|" + "---|" * (len(KINDS) + 2),
    ]
    for name, outcomes in suites.items():
        lines.append(_row(TITLES[name][0], TITLES[name][1], outcomes))
        if counted := [o for o in outcomes if not o.beside] if any(o.beside for o in outcomes) else []:
            beside = ", ".join(sorted({o.beside for o in outcomes} - {""}))
            lines.append(_row(f"without {beside}", TITLES[name][1], counted))
    for name, outcomes in suites.items():
        lines += ["", f"## {TITLES[name][0]}: what does not convert", "", "| subject | cases | why |", "|---|---|---|"]
        groups = defaultdict[tuple[str, str], int](int)
        for o in outcomes:
            if o.kind not in ("passed", "ours alone"):
                why = o.beside or (o.cause if o.kind == "refused" else f"{o.kind}: {o.cause}")
                groups[o.subject, why] += 1
        for (subject, why), count in sorted(groups.items()):
            lines.append(f"| {_cell(subject)} | {count} | {_cell(why)} |")
    return "\n".join(lines) + "\n"


def _row(title: str, what: str, outcomes: Sequence[Outcome]) -> str:
    counts = Counter(o.kind for o in outcomes)
    right = [o for o in outcomes if o.kind in ("passed", "ours alone")]
    share = f"{100 * len(right) / max(1, len(outcomes)):.0f} %"
    subjects = f"{len({o.subject for o in right})} of {len({o.subject for o in outcomes})} {what}"
    return f"| {title} | {len(outcomes)} | " + " | ".join(str(counts[k]) for k in KINDS) + f" | {share} | {subjects} |"


def _cell(words: str) -> str:
    return re.sub(r"([|<*_\[])", r"\\\1", words)
