"""Compares our figures on Cortex-M with TFLM's recorded ones, and with the limits that the project set itself.

All limits are in the tables below. Figures without a limit are shown without a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from twinfer.bench.measure.compare import Row

#: The models whose instructions are averaged.
MEAN_OF = ("ad01", "kws", "vww", "ic", "person", "micro_speech")

#: Core -> the greatest ratio of the fastest code's instructions to TFLM with CMSIS-NN at -O3: mean, and each model.
INSTRUCTIONS: Mapping[str, tuple[float, float]] = {"cortex-m4": (0.55, 0.70), "cortex-m55": (0.60, 0.85)}

#: The most instructions of hello_world: those of the best peer.
HELLO: Mapping[str, int] = {"cortex-m4": 883, "cortex-m55": 686}

#: Setting -> the greatest ratio of bytes of code and params to TFLM's smallest build.
CODE: Mapping[str, float] = {"speed": 0.35, "size": 0.20}

#: The greatest ratio of bytes of weights to those that any form needs: weights, bias, and 5 per channel.
WEIGHTS = 1.10

#: The greatest ratio of bytes of RAM, without stack, to the plan's lower bound, and to the arena that TFLM uses.
RAM, ARENA = 1.10, 1.00


@dataclass(frozen=True)
class Verdict:
    """A figure and its limit, if it has one. ``text`` is what is shown."""

    value: float
    most: float | None = None
    text: str = ""

    @property
    def good(self) -> bool | None:
        """Whether the figure is within the limit; None without a limit."""
        return None if self.most is None else self.value <= self.most

    def __str__(self) -> str:
        return self.text or f"{self.value:.2f}"


@dataclass(frozen=True)
class Standing:
    """One model on one core: instructions and code by setting, then weights, RAM against the plan's bound, and RAM
    against TFLM's arena: by way of planning memory, the plan's own first.
    """

    model: str
    target: str
    instructions: Mapping[str, Verdict]
    code: Mapping[str, Verdict]
    weights: Verdict
    ram: Verdict
    arena: Mapping[str, Verdict]


def standings(rows: Sequence[Row]) -> list[Standing]:
    """Every model and core that TFLM was measured on, in the order of the rows."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["target"], row["model"]), []).append(row)
    return [standing for group in groups.values() for standing in _standing(group)]


def mean(standing: Sequence[Standing], setting: str) -> tuple[Verdict, int] | None:
    """The geometric mean of one core's instructions, and the number of models of ``MEAN_OF`` in it; None if there are
    none."""
    ratios = [s.instructions[setting].value for s in standing if s.model in MEAN_OF and setting in s.instructions]
    if not ratios:
        return None
    most = INSTRUCTIONS.get(standing[0].target, (None, None))[0] if setting == "speed" else None
    return Verdict(geometric_mean(ratios), most), len(ratios)


def settings_of(standing: Sequence[Standing]) -> list[str]:
    """The settings that were measured, in the order asked for."""
    return list(dict.fromkeys(setting for each in standing for setting in each.instructions))


def _standing(rows: Sequence[Row]) -> Iterator[Standing]:
    plain = [row for row in rows if row.get("weights", "file") in ("file", "plain") and row["instructions"] is not None]
    own = {row["optimize"]: row for row in plain if row["engine"] == "compiled"}
    peers = {row["engine"]: row for row in rows if "recorded" in row}
    fast, small = peers.get("tflm-cmsis"), peers.get("tflm-cmsis-small")
    if not own or fast is None:
        return
    row, model = next(iter(own.values())), fast["recorded"].removeprefix("alike: ")
    arenas = {"layers": row.get("layers_arena_bytes"), "rows": row.get("rows_arena_bytes")}
    yield Standing(
        model,
        row["target"],
        {setting: _instructions(model, setting, ours, fast) for setting, ours in own.items()},
        {setting: _code(setting, ours, small) for setting, ours in own.items()},
        Verdict(row["weight_bytes"] / fast["weights_floor_bytes"], WEIGHTS),
        Verdict(row["ram_bytes"] / max(row["lower_bound_bytes"], 1), RAM),
        {
            way: Verdict((arena + row["ram_bytes"] - row["arena_bytes"]) / fast["arena_bytes"], ARENA)
            for way, arena in ({row.get("memory", "auto"): row["arena_bytes"]} | arenas).items()
            if arena is not None
        },
    )


def _instructions(model: str, setting: str, row: Row, fast: Row) -> Verdict:
    ratio, target = row["instructions"] / fast["instructions"], row["target"]
    if setting != "speed" or target not in INSTRUCTIONS:
        return Verdict(ratio)
    if model == "hello":
        return Verdict(ratio, HELLO[target] / fast["instructions"])
    return Verdict(ratio, INSTRUCTIONS[target][1])


def _code(setting: str, row: Row, small: Row | None) -> Verdict:
    size: int = row["code_bytes"]
    if small is None:
        return Verdict(size, text=f"{size:,}")
    ratio = size / small["code_bytes"]
    return Verdict(ratio, CODE.get(setting), f"{size:,} {ratio:.2f}")
