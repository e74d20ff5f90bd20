"""What quantisation costs, as one HTML file: every tensor with its histogram, and which layers cost most."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from twinfer.bench.page.chart import BAD, COLOURS, NAMES, ROW, Chart, Charts, distinct, field, room, tooltip, values
from twinfer.bench.page.page import Section, page
from twinfer.bench.page.table import Cell, Table
from twinfer.command_line.show.conversion import footprint_cells, tensor_cells
from twinfer.converter.quantize.compare import Report, Sensitivity, TensorReport

#: The greatest signal-to-noise ratio in a picture, in dB; better ones reach its edge.
_MOST = 60

#: The least width of a histogram in pixels: two side by side on a telephone.
_LEAST = 150

_NOTE = """<p>SNR: energy of the float values by that of the differences. Histograms, of logarithmic height: float
values filled, the quantised ones as a line; red bounds: what the integers reach. Clipped: float values beyond.</p>
"""


def report_html(report: Report, name: str) -> str:
    """The page of a report about the model ``name``. ToolError if vl-convert-python is missing."""
    parts: list[str | Section] = []
    if report.outputs:  # the tensors of both graphs were compared
        each = ", ".join(f"{escape(output.name)} {output.snr_db:.1f} dB" for output in report.outputs)
        parts.append(f"<p>{report.samples:,} samples. Signal to noise of the outputs, the worst first: {each}.</p>\n")
        parts.append(Section("Tensors, as the model runs", (_along(report.tensors), _tensors(report.tensors))))
        parts += _costly(report.sensitivity)
        parts.append(Section("Histograms", (_NOTE, Charts(tuple(map(_histogram, report.tensors)), _LEAST))))
    heads = ("<layer", "<operator", "<type", "zeros", "values", "entropy", "plain B", "bitmap B", "table B")
    weights = list[Sequence[Cell | str]]()
    for f in report.compression:
        kind, zeros, *figures = footprint_cells(f)
        weights.append((f.name, f.operator, kind, Cell(zeros, f.sparsity), *figures))
    table = Table("Weights in flash: estimates", (*heads, "Huffman B"), tuple(weights))
    return page(f"{name}: quantised beside float", [*parts, Section("Weights", (table,))], report.json())


def _along(tensors: Sequence[TensorReport]) -> Chart:
    """One bar per tensor, in the order of the graph: its signal-to-noise ratio, the least in red."""
    worst = min(tensors, key=lambda t: t.snr_db, default=None)
    rows = [
        {"number": i, "tensor": t.name, "SNR dB": round(t.snr_db, 1), "worst": t is worst}
        for i, t in enumerate(tensors, 1)
    ]
    told = f"Signal-to-noise ratios of {len(tensors)} tensors in the order of the graph"
    told += f"; the least has {worst.name}, {worst.snr_db:.1f} dB with all layers before it." if worst else "."
    ratio = field("SNR dB", scale={"domain": [0, _MOST], "clamp": True}, axis={"values": [0, 20, 40, 60]})
    number = field("number", "ordinal", title="tensor", axis={"labelAngle": 0, "ticks": False, "grid": False})
    colour = {"condition": {"test": "datum.worst", "value": COLOURS[5]}, "value": COLOURS[0]}
    encoding = {"x": number, "y": ratio, "color": colour, "tooltip": tooltip("number", "tensor", "SNR dB")}
    spec = {"height": 200, "data": values(rows), "mark": "bar", "encoding": encoding}
    return Chart("Signal to noise of every tensor", told, spec)


def _tensors(tensors: Sequence[TensorReport]) -> Table:
    heads = ("#", "<tensor", "<operator", "<type", "scale", "zero", "SNR dB", "cosine", "clipped")
    rows = list[Sequence[Cell | str]]()
    for i, t in enumerate(tensors, 1):
        *cells, clipped = tensor_cells(t)
        rows.append((str(i), *cells, Cell(clipped, t.saturated, "bad" if t.saturated > 0.01 else "")))
    return Table("Tensors", heads, tuple(rows))


def _histogram(t: TensorReport) -> Chart:
    """Float values as bars, quantised ones as a line over them, both of logarithmic height."""
    ends = zip(t.edges[:-1], t.edges[1:], t.counts, t.quantized_counts, strict=True)
    rows = [{"from": low, "to": high, "float": n, "quantised": q} for low, high, n, q in ends]
    low, high = t.edges[0], t.edges[-1]
    about = f"{t.name}: float and quantised values from {low:.4g} to {high:.4g}"
    steps = [{"x": row["from"], "count": row["quantised"]} for row in rows]
    steps.append({"x": high, "count": t.quantized_counts[-1]})
    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5, "tooltip": False}
    counts = {"x": field("x"), "y": field("count", axis=None, scale={"type": "symlog"})}
    outline = {"mark": line, "data": values(steps), "encoding": counts}
    layers = [_filled(low, high), outline, *(_bound(value) for value in t.reach if low <= value <= high)]
    return Chart(t.name, about, {"height": 56, "data": values(rows), "layer": layers})


def _filled(low: float, high: float) -> dict[str, Any]:
    ends = {"values": [low, high], "format": ".4~g", "labelFlush": True, "labelOverlap": False, "grid": False}
    x = field("from", bin="binned", title=None, scale={"domain": [low, high], "nice": False}, axis=ends)
    counts = tooltip("from", "to", "float", "quantised", **dict.fromkeys(("float", "quantised"), "quantitative"))
    y = field("float", axis=None, scale={"type": "symlog"})
    mark = {"type": "bar", "opacity": 0.35, "binSpacing": 0}
    return {"mark": mark, "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "tooltip": counts}}


def _bound(value: float) -> dict[str, Any]:
    """A line where the integers end."""
    mark = {"type": "rule", "color": BAD, "strokeWidth": 1.5}
    return {"mark": mark, "data": {"values": [{}]}, "encoding": {"x": {"datum": value}}}


def _costly(layers: Sequence[Sensitivity]) -> list[Section]:
    """A bar per layer: the outputs' signal to noise if it alone is quantised, the costliest first."""
    if not layers:
        return []
    rows = [
        {"layer": place, "operator": layer.operator, "SNR dB": layer.snr_db, "outputs": f"{layer.snr_db:.1f} dB"}
        for place, layer in zip(distinct([layer.name for layer in layers]), layers, strict=True)
    ]
    told = "Signal to noise of the outputs if one layer alone is quantised, the costliest first: "
    told += ", ".join(f"{row['layer']} {row['outputs']}" for row in rows[:5])
    spec = {"height": ROW * len(rows), "padding": room(56), "data": values(rows), "layer": _ratios()}
    note = '<p class="quiet">What is left of the outputs. Shorter bars: more noise.</p>\n'
    return [Section("One layer quantised alone", (note, Chart("Signal to noise of the outputs", told, spec)))]


def _ratios() -> list[dict[str, Any]]:
    ratio = field("SNR dB", scale={"domain": [0, _MOST], "nice": False, "clamp": True})
    places = {"y": field("layer", "nominal", sort=None, title=None, axis=NAMES), "x": ratio}
    text = {"type": "text", "align": "left", "dx": 4}
    return [
        {"mark": "bar", "encoding": {**places, "tooltip": tooltip("layer", "operator", "outputs")}},
        {"mark": text, "encoding": {**places, "text": field("outputs", "nominal")}},
    ]
