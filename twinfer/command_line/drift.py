"""The options of ``twinfer bench`` that keep figures and compare with those kept."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinfer.runtime.errors import InvalidArgumentError

if TYPE_CHECKING:
    from twinfer.bench.drift.drift import Drifts, Limits
    from twinfer.bench.drift.saved import Saved

#: The name of figures that were given none.
BASE = "base"

PLACE = "a NAME (default: base), by machine and model in .twinfer/bench, or a .json file"


def add_drift(command: argparse.ArgumentParser) -> None:
    about = f"keep the figures to compare with later, as {PLACE}"
    command.add_argument("--save", metavar="PLACE", nargs="?", const=BASE, help=about)
    about = f"compare with figures kept as {PLACE}; exit status 1 if one got worse by more than --max-drift"
    command.add_argument("--compare", metavar="PLACE", nargs="?", const=BASE, help=about)
    about = "how far figures may drift (default: 1 for counts and bytes, 25 for times, and beyond their noise)"
    command.add_argument("--max-drift", metavar="PERCENT", type=_percent, help=about)


def _percent(text: str) -> float:
    """5 and 5% as the same number."""
    with suppress(ValueError):
        value = float(text.rstrip("% "))
        if 0 <= value < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no per cent: write 5 or 5%")


@dataclass(frozen=True)
class Watch:
    """What ``--save`` and ``--compare`` asked for; ``before`` are the figures to compare with, read beforehand."""

    save: str | None
    before: Sequence[Saved] | None
    machine: Mapping[str, Any]
    limits: Limits

    def drifts(self, rows: Sequence[Mapping[str, Any]]) -> Drifts | None:
        """The rows beside the figures of before; None if they were not asked for."""
        from twinfer.bench.drift.drift import drifts
        from twinfer.bench.drift.runs import runs_of

        return None if self.before is None else drifts(runs_of(rows), self.machine, self.before, self.limits)

    def keep(self, document: Mapping[str, Any], whole: bool) -> None:
        """Keep the figures if asked to, and say so. Those of a run that was broken off are not kept."""
        from twinfer.bench.drift.drift import where_kept
        from twinfer.bench.drift.saved import save
        from twinfer.command_line.terminal import note

        if self.save is None:
            return
        if whole and document["rows"]:
            note(f"figures are {where_kept(save(document, self.save))}")
        else:
            note("nothing was kept (--save)")


def watch_of(arguments: argparse.Namespace, models: Sequence[str]) -> Watch:
    """The watch that was asked for. InvalidArgumentError for options that do not fit, and without figures of before."""
    from twinfer.bench.drift.drift import Limits
    from twinfer.bench.drift.saved import saved
    from twinfer.bench.measure.report import machine
    from twinfer.bench.models.source import name_of

    places = [place for place in (arguments.save, arguments.compare) if place is not None]
    names, limit = [name_of(model) for model in models], arguments.max_drift
    if places:
        _check(places, names)
    if limit is not None and arguments.compare is None:
        raise InvalidArgumentError("--max-drift says how far figures may be from those kept: give --compare, too")
    here = machine() if arguments.compare is not None else {}
    before = None if arguments.compare is None else saved(arguments.compare, names, here)
    return Watch(arguments.save, before, here, Limits() if limit is None else Limits(limit, limit))


def named_files(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    """The files of the user's that are written and read; None for names."""
    from twinfer.bench.drift.saved import is_file

    written, read = (place if place and is_file(place) else None for place in (arguments.save, arguments.compare))
    return written, read


def _check(places: Sequence[str], models: Sequence[str]) -> None:
    from twinfer.bench.drift.saved import is_file
    from twinfer.bench.models.source import builtin_names

    for place in places:
        if place in builtin_names() or place.endswith(".tflite"):
            raise InvalidArgumentError(f"{place} is a model: name the models first, then --save or --compare")
        is_file(place)
    if twice := [name for i, name in enumerate(models) if name in models[:i]]:
        raise InvalidArgumentError(f"two models are called {twice[0]}: figures are kept by name, so rename one")
