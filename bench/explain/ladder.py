"""The ladder: one model built with techniques added one after the other, and with each removed from all.

Every rung is a program that is built, run, and compared with the interpreter on this computer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.aot.build.firmware import build
from twinfer.aot.build.host import FLAGS, compile_plans
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import emit
from twinfer.aot.print.literals import identifier
from twinfer.bench.explain.techniques import TECHNIQUES, added, removed, simd
from twinfer.bench.measure.compare import Row, same_bits
from twinfer.bench.measure.embedded import all_agree, fresh_outputs, host_outputs
from twinfer.bench.measure.report import in_terminal
from twinfer.bench.measure.tflm import tflm_rows
from twinfer.bench.measure.turns import interleave
from twinfer.bench.models.source import Source
from twinfer.bench.report.tables import ladder_table
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs

Progress = Callable[[float], None]

#: What the compiler must not know of each feature so that C stands in for its instructions.
UNDEFINED = {"dsp": ("-U__ARM_FEATURE_DSP", "-DTW_NO_ASM"), "mve": ("-U__ARM_FEATURE_MVE",)}


@dataclass(frozen=True)
class Figures:
    """What a program takes: ``taken`` in instructions or µs, bytes of flash (None on a computer) and RAM."""

    taken: float
    flash_bytes: int | None
    ram_bytes: int
    same_bits: bool


@dataclass(frozen=True)
class Ladder:
    """``ups`` are the programs with none, one, two, … of the ``techniques``, ``downs`` those with all but each.

    ``peers`` are recorded figures of others, if there are any.
    """

    model: str
    target: str
    unit: str
    techniques: tuple[str, ...]
    ups: tuple[Figures, ...]
    downs: tuple[Figures, ...]
    peers: tuple[Row, ...] = ()

    @property
    def whole(self) -> Figures:
        """The program with all of them."""
        return self.ups[-1]

    @property
    def same_bits(self) -> bool:
        return all(each.same_bits for each in (*self.ups, *self.downs))

    @property
    def document(self) -> dict[str, Any]:
        """The ladder in the JSON, with what it means in words."""
        rungs = zip(self.techniques, self.ups[1:], self.downs, strict=True)
        return {
            "unit": self.unit,
            "none": asdict(self.ups[0]),
            "rungs": [{"technique": key, "added": asdict(up), "removed": asdict(down)} for key, up, down in rungs],
            "peers": list(self.peers),
            "words": list(ladder_words(self)),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: the rungs both ways."""
        return ladder_table(self.document).html


def ladder_on(
    source: Source,
    card: Card,
    techniques: Sequence[str],
    options: Options = USUAL,
    seed: int = 0,
    progress: Progress = lambda share: None,
) -> Ladder:
    """The ladder on a microcontroller: instructions and bytes. ToolError if a program cannot be built or run."""
    inputs = random_inputs(make_plan(source.graph, card.target, options).graph, seed)
    want = host_outputs(source.graph, inputs)
    builds = [*added(techniques), *removed(techniques)]
    figures = []
    for i, each in enumerate(builds):
        progress(i / len(builds))
        own = card
        if "packing" in each.techniques and "instructions" not in each.techniques:
            flags = [flag for feature in sorted(simd(card.target)) for flag in UNDEFINED.get(feature, ())]
            own = replace(card, flags=(*card.flags, *flags))
        plan = make_plan(source.graph, each.target(card.target), each.options(options))
        project = emit(plan, identifier(source.name), policy=each.policy)
        (result,) = run_jobs(build(project, own), [Job(inputs)])
        taken, alike = sizes(project, own), all_agree(result.outputs, want)
        figures.append(Figures(result.counts[0], taken.flash_bytes, taken.ram_bytes, alike))
    count = len(techniques) + 1
    peers = tuple(tflm_rows(source, card.name))
    return Ladder(
        source.name, card.name, "instructions", tuple(techniques), tuple(figures[:count]), tuple(figures[count:]), peers
    )


def ladder_on_host(
    source: Source,
    techniques: Sequence[str],
    options: Options = USUAL,
    seed: int = 0,
    seconds: float = 5.0,
    progress: Progress = lambda share: None,
) -> Ladder:
    """The ladder on this computer: µs, all programs in turn. ToolError without a compiler."""
    builds = [*added(techniques), *removed(techniques)]
    inputs = random_inputs(make_plan(source.graph).graph, seed)
    want = host_outputs(source.graph, inputs)
    engines, alike = {}, []
    for i, each in enumerate(builds):
        progress(i / len(builds) / 2)
        plan = make_plan(source.graph, each.target(isa.this_computer()), each.options(options))
        flags = [flag for flag in FLAGS if flag != "-march=native" or "instructions" in each.techniques]
        engine = compile_plans({"model": plan}, policy=each.policy, flags=flags)["model"]
        alike.append(same_bits(fresh_outputs(engine, inputs), want))
        engines[str(i)] = engine
    runs = {key: engine.run for key, engine in engines.items()}
    times = interleave(runs, seconds=seconds, progress=lambda share: progress(0.5 + share / 2))
    figures = [
        Figures(times[key].median / 1e3, None, engine.plan.memory_bytes, same)
        for (key, engine), same in zip(engines.items(), alike, strict=True)
    ]
    count = len(techniques) + 1
    return Ladder(source.name, "host", "µs", tuple(techniques), tuple(figures[:count]), tuple(figures[count:]))


# -- tables and words --------------------------------------------------------------------------------------------------


#: A change below this share is not worth a word.
WORTH_A_WORD = 0.005


def ladder_tables(ladder: Ladder) -> Iterator[RenderableType]:
    """The rungs both ways, what they mean, and figures of others."""
    title = f"{ladder.model} on {ladder.target}: techniques added to nothing, and each left out of all"
    yield in_terminal(ladder_table(ladder.document), title, 1)
    about = [f"{TECHNIQUES[key].label}: {TECHNIQUES[key].about}." for key in ladder.techniques]
    about.append("Without a technique there are none that need it either.")
    yield Text("\n".join(about), "bright_black")
    yield Text("\n".join(ladder_words(ladder)))


def ladder_words(ladder: Ladder) -> Iterator[str]:
    """What every technique is worth, a sentence each, in the order of the ladder."""
    for key, before, up, down in zip(ladder.techniques, ladder.ups, ladder.ups[1:], ladder.downs, strict=False):
        when_added, when_gone = before.taken / up.taken, down.taken / ladder.whole.taken
        parts = [
            f"{when_added:.2f} × when added, {when_gone:.2f} × when all else is there",
            *_bytes("flash", before.flash_bytes, up.flash_bytes),
            *_bytes("RAM", before.ram_bytes, up.ram_bytes),
        ]
        nothing = max(abs(when_added - 1), abs(when_gone - 1)) < WORTH_A_WORD and len(parts) == 1
        label = TECHNIQUES[key].label
        yield f"{label[0].upper()}{label[1:]}: {'nothing here' if nothing else '; '.join(parts)}."
    first, last = ladder.ups[0], ladder.whole
    yield f"All together: {first.taken / last.taken:.1f} ×, RAM {last.ram_bytes / max(first.ram_bytes, 1):.2f} ×."


def _bytes(kind: str, before: int | None, after: int | None) -> Iterator[str]:
    """What a technique costs or saves in bytes, if it does."""
    if before is None or after is None or before == after:
        return
    verb = "costs" if after > before else "saves"
    yield f"{verb} {abs(after - before):,} B of {kind}"
