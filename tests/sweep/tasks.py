"""What the sweep runs: which models, and for each the commands, in groups that share a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from needs import SHARED, emulated

from twinfer.aot.build.targets import names
from twinfer.bench.models.source import builtin_names

#: Targets of ``twinfer compile``; those with a card can also be run under QEMU.
TARGETS = ("host", "generic", "native", *names())

#: Mode, optimise, memory: every way to print a plan.
SETTINGS = tuple(product(("compiled", "interpreted"), ("speed", "balanced", "size"), ("auto", "layers", "rows")))

#: What a compilation may be asked for beside these.
EXTRAS = (
    (), ("--weights", "auto"), ("--guard",), ("--input-in-place",), (), ("--input-rows",), ("--io", "int8"),
    ("--weights", "huffman", "--decode", "start"),
)  # fmt: skip

#: Groups of commands, the cheap ones first: all models pass one before the next begins. Tests take "quick".
GROUPS = ("look", "compile", "prove", "report", "target")

#: One model in so many has the commands whose compilers take longest: reports of this computer, programs under QEMU.
SOME = 8


@dataclass(frozen=True)
class Command:
    """A command line in a folder of its group. ``label`` is its row in the table; ``makes`` are files that it writes.

    Behind ``needs``, the label of a command before it, it only runs if that one is done. ``program`` is what to run
    in twinfer's place. ``bare``: without compilers, so that compiling only writes C, which is fast.
    """

    label: str
    words: tuple[str, ...]
    makes: tuple[str, ...] = ()
    needs: str = ""
    program: str = "twinfer"
    bare: bool = False

    @property
    def line(self) -> str:
        return " ".join([self.program, *self.words])


@dataclass(frozen=True)
class Task:
    """A group of commands over a model."""

    model: str
    group: str
    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Model:
    """A file or built-in model; ``row`` is its row of the corpus's index, empty without one."""

    name: str
    row: tuple[tuple[str, Any], ...] = ()

    @property
    def number(self) -> int:
        """A number that follows from the content, so that a choice by it lasts."""
        known = dict(self.row).get("sha256")
        path = Path(self.name)
        content = path.read_bytes() if path.is_file() else self.name.encode()
        return int(known or hashlib.sha256(content).hexdigest(), 16)

    @property
    def features(self) -> frozenset[object]:
        """What a choice of models should have an example of."""
        row = dict(self.row)
        many = [("op", op) for op in row.get("ops", {})] + [("type", type) for type in row.get("types", ())]
        single = [(key, row.get(key)) for key in ("group", "stateful", "control_flow", "dynamic_shapes", "tflm")]
        return frozenset([*many, *single, *(("quant", kind) for kind in row.get("quant", ()))])

    def within(self, most_bytes: int, most_macs: int) -> bool:
        """Whether it is of the corpus, its file has at most so many bytes, a run so many multiply-accumulates."""
        row = dict(self.row)
        return bool(row) and int(row["bytes"]) <= most_bytes and int(row.get("macs") or 0) <= most_macs


def corpus() -> list[Model]:
    """The models of the corpus, of the folder of faults beside it, and the built-in ones."""
    index = SHARED / "corpus" / "index.json"
    rows = json.loads(index.read_text("utf-8")) if index.exists() else []
    models = [Model(str(index.parent / row["file"]), tuple(row.items())) for row in rows]
    faults = sorted((SHARED / "faults").glob("*.tflite"))
    return [*models, *(Model(str(path)) for path in faults), *map(Model, builtin_names())]


def chosen(models: Iterable[Model], count: int) -> list[Model]:
    """So many models of the corpus: always those that have most of what is not there yet, then by content.

    Large ones are left out: of each feature there is a small example.
    """
    small = (model for model in models if model.within(most_bytes=(1 << 18) - 1, most_macs=3_999_999))
    rest = sorted(small, key=lambda model: model.number)
    picked: list[Model] = []
    missing = frozenset[object]().union(*(model.features for model in rest))
    while rest and len(picked) < count:
        best = max(rest, key=lambda model: len(model.features & missing))
        picked.append(best)
        rest.remove(best)
        missing -= best.features
    return picked


def tasks(models: Sequence[Model], groups: Sequence[str] = GROUPS, *, every: bool = False) -> list[Task]:
    """The tasks of these groups, group by group. ``every``: all ways to compile, not each target in one of them."""
    made = (Task(m.name, group, tuple(_commands(m, group, every))) for group in groups for m in models)
    return [task for task in made if task.commands]


def _commands(model: Model, group: str, every: bool) -> Iterator[Command]:
    name, number = model.name, model.number
    m4 = ("--target", "cortex-m4")
    match group:
        case "quick":
            yield Command("run", ("run", name, "--output", "y.npz"), ("y.npz",))
            yield Command("convert", ("convert", name, "-o", "c.tflite"), ("c.tflite",))
            yield (
                Command("inspect --memory", ("inspect", name, "--memory", *m4)),
                Command("ops", ("ops", name, "--target", "cortex-m55")),
                Command("stream", ("stream", name, "-o", "s.tflite"), ("s.tflite",)),
                Command("optimize", ("optimize", name, "-o", "o.tflite"), ("o.tflite",)),
            )[number % 4]
            ways = [each for each in _compilations(name, number, every) if each.label == "compile"]
            yield ways[number // 3 % len(ways)]
        case "look":
            yield Command("inspect", ("inspect", name))
            yield Command("inspect --json", ("inspect", name, "--json", *m4))
            yield Command("inspect --memory", ("inspect", name, "--memory", *m4))
            yield Command("ops", ("ops", name, "--target", "cortex-m55"))
            yield Command("run", ("run", name, "--output", "y.npz"), ("y.npz",))
            yield Command("convert", ("convert", name, "-o", "c.tflite"), ("c.tflite",))
            yield Command("run converted", ("run", "c.tflite", "--output", "z.npz"), ("z.npz",), "convert")
            yield Command("optimize", ("optimize", name, "-o", "o.tflite"), ("o.tflite",))
            yield Command("stream", ("stream", name, "-o", "s.tflite"), ("s.tflite",))
            yield Command("run streaming", ("run", "s.tflite"), (), "stream")
        case "compile":
            yield from _compilations(name, number, every)
        case "prove":
            yield Command("verify", ("verify", name))
            yield Command("bench", ("bench", name, "--seconds", "0.05", "--layers", "--json", "b.json"), ("b.json",))
        case "report":
            where = () if number % SOME == 1 else m4
            short = ("--seconds", "0.2")
            made = ("r.html", "r.json")
            yield Command("report", ("report", name, *where, "--no-ladder", *short, *_writes(*made)), made)
            yield Command("explain", ("explain", name, *where, *short))
            yield Command("diff", ("diff", "r.json", "r.html", "-o", "d.html"), ("d.html",), "report")
            if number % SOME == 2:
                yield Command("diff --with", ("diff", name, *m4, "--with=--memory rows --optimize size"))
        case "target" if number % SOME == 3:
            target = emulated()[number // SOME % len(emulated())]
            mode, how, memory = SETTINGS[number // SOME % len(SETTINGS)]
            words = ("--target", target, "--mode", mode, "--optimize", how, "--memory", memory)
            yield Command("compile", ("compile", name, *words, "-o", "t"), ("t/Makefile",))
            yield Command("self-test (QEMU)", ("-C", "t", "test"), (), "compile", "make")


def _writes(page: str, figures: str) -> tuple[str, ...]:
    return "-o", page, "--json", figures


def _compilations(name: str, number: int, every: bool) -> Iterator[Command]:
    """Every target: in all ways or in one, so that models whose numbers follow each other have all of them."""
    for i, target in enumerate(TARGETS):
        ways = range(len(SETTINGS)) if every else [(number + 7 * i) % len(SETTINGS)]
        for way in ways:
            mode, how, memory = SETTINGS[way]
            words = ("--target", target, "--mode", mode, "--optimize", how, "--memory", memory)
            extra = EXTRAS[(number // len(SETTINGS) + i) % len(EXTRAS)] if i else ()
            folder = f"{target}-{way}"
            own = ("compile", name, *words, *extra, "-o", folder)
            yield Command("compile", own, (f"{folder}/Makefile",), bare=i != number % len(TARGETS) or every)
            if target == "host" and way == number % len(SETTINGS):
                yield Command("self-test (host)", ("-C", folder, "test"), (), "compile", "make")
