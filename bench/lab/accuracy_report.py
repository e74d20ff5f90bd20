"""The rows of ``accuracy`` as a table and as JSON, compared with the limits that the project set itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.lab.quantisers import BASELINE, ENGINES, OURS, PEERS
from twinfer.bench.measure import report
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.limits import Verdict

#: Most points of accuracy that int8 may cost.
POINTS = 0.5

#: Rises when a key of the JSON goes or changes its meaning. New keys do not count.
SCHEMA = 1

_COLUMNS = ("<", "accuracy\n%", "loss\npoints", "answers\nchanged", "logits'\nSNR dB", "convert\ns", "file\nbytes")


@dataclass(frozen=True)
class Standing(Verdict):
    """The loss of one of our engines on one network, with a limit and its description."""

    what: str = ""


def verdicts(rows: Sequence[Row]) -> list[Standing]:
    """Every limit: at most 0.5 points, and no more loss than any peer on the same network.

    A gain by rounding is luck and counts as no loss, for us and for the peers.
    """
    return [verdict for group in _groups(rows) for verdict in _verdicts(group)]


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of one set and model together."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["set"], row["model"]), []).append(row)
    return list(groups.values())


def _verdicts(group: Sequence[Row]) -> Iterator[Standing]:
    loss = {row["engine"]: max(0.0, row["loss_points"]) for row in group}
    name = f"{group[0]['set']} {group[0]['model']}"
    for own in OURS:
        yield Standing(loss[own], POINTS, what=f"{name}: {own} within {POINTS} points")
        for peer in PEERS:
            if peer in loss:
                yield Standing(loss[own], loss[peer], what=f"{name}: {own} loses no more than {peer}")


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """The JSON document: machine, versions of the peers, rows, and limits."""
    limits = [{"what": v.what, "loss_points": v.value, "most": v.most, "held": v.good} for v in verdicts(rows)]
    versions = {e.needs[1]: e.version for e in ENGINES.values() if e.needs and e.installed}
    return {"schema": SCHEMA, "machine": report.machine(), "peers": versions, "rows": list(rows), "limits": limits}


def tables(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """The table, then the number of limits that are held, and the missed ones."""
    shown = report.table("Accuracy on held-out data, ±: standard deviation of the folds", *_COLUMNS, gap=1)
    for group in _groups(rows):
        title = f"{group[0]['set']} {group[0]['model']}, {group[0]['samples']:,} samples"
        shown.add_row(Text(title, style="bold"))
        for row in group:
            shown.add_row(*_cells(row))
    yield shown
    standing = verdicts(rows)
    missed = [v for v in standing if not v.good]
    yield Text(f"{len(standing) - len(missed)} of {len(standing)} limits are held", "red" if missed else "green")
    yield from (Text(f"missed: {v.what}: {v.value:.2f}, not {v.most:.2f}", style="red") for v in missed)


def _cells(row: Row) -> list[str | Text]:
    own = row["engine"] in OURS
    snr = "-" if row["snr_db"] is None or row["snr_db"] > 100 else f"{row['snr_db']:.1f}"
    loss = f"{row['loss_points']:+.2f}"
    return [
        Text(f"  {row['engine']}", style="bold" if own else ""),
        report.spread(row["accuracy"], row["folds"]),
        "-" if row["engine"] == BASELINE else Text(loss, style=_style(row["loss_points"])),
        f"{row['changed']:,}",
        snr,
        "-" if row["engine"] == BASELINE else f"{row['convert_s']:.2f}",
        f"{row['bytes']:,}",
    ]


def _style(loss: float) -> str:
    return "green" if loss <= POINTS else "red"
