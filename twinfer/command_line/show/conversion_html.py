"""What quantisation costs, as one HTML file: every tensor with its histogram, and which layers cost most."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from twinfer.bench.measure.page import COLOURS, page, svg, wide
from twinfer.converter.compress.footprint import Footprint
from twinfer.converter.report import Report, Sensitivity, TensorReport
from twinfer.runtime.printable import in_html

#: Pictures in pixels: a histogram, and the bars of decibels. A bar shows at most _MOST dB.
_WIDTH, _HEIGHT = 192, 36
_BAR, _LONG, _HIGH, _MOST, _LEFT = 16, 420, 200, 60.0, 48

_NOTE = """<p>SNR: energy of the float values by that of the differences. Histograms, of logarithmic height: float
values filled, the quantised ones as a line; red bounds: what the integers reach. Clipped: float values beyond.</p>
"""


def report_html(report: Report, name: str) -> str:
    """The page of a report about the model ``name``."""
    return page(f"{name}: quantised beside float", [*_compared(report), _weights(report.compression)])


def _compared(report: Report) -> list[str]:
    """The tensors of both graphs, if they were compared."""
    if report.outputs_snr_db is None:
        return []
    summary = f"<p>{report.samples:,} samples. Signal to noise: {report.outputs_snr_db:.1f} dB of the outputs; "
    summary += "of every tensor, as the model runs:</p>\n"
    return [summary, _along(report.tensors), _tensors(report.tensors), _NOTE, *_costly(report.sensitivity)]


def _weights(layers: Sequence[Footprint]) -> str:
    """The weights, and their bytes of flash."""
    heads = ("layer", "operator", "type", "zeros", "values", "entropy", "plain B", "bitmap B", "table B", "Huffman B")
    rows = "".join(_footprint(f) for f in layers)
    head = "".join(f"<th>{h}</th>" for h in heads)
    title = "<caption>Weights in flash: estimates</caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>\n"


def _footprint(f: Footprint) -> str:
    cells = f'<td class="name">{in_html(f.name)}</td><td>{in_html(f.operator)}</td><td>{f.type}</td>'
    cells += f"<td>{100 * f.sparsity:.1f} %</td>"
    cells += f"<td>{f.distinct:,}</td><td>{f.entropy_bits:.2f}</td><td>{f.plain:,}</td>"
    coded = (f.bitmap, f.lut, f.huffman)
    return f"<tr>{cells}{''.join('<td>-</td>' if b is None else f'<td>{b:,}</td>' for b in coded)}</tr>\n"


def _along(tensors: Sequence[TensorReport]) -> str:
    """One bar per tensor, in the order of the graph: its signal-to-noise ratio, the worst in red."""
    shapes: list[str] = []
    end = _LEFT + len(tensors) * _BAR
    for db in (20, 40, 60):
        y = _HIGH - _high(db)
        shapes.append(f'<line x1="{_LEFT}" x2="{end}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        shapes.append(f'<text x="0" y="{y + 5:.0f}">{db} dB</text>')
    worst = min((t.snr_db for t in tensors), default=0.0)
    for i, t in enumerate(tensors):
        high = _high(t.snr_db)
        colour = COLOURS[5] if t.snr_db == worst else COLOURS[0]
        place = f'x="{_LEFT + i * _BAR}" y="{_HIGH - high:.1f}" width="{_BAR - 2}" height="{high:.1f}"'
        shapes.append(f'<rect {place} fill="{colour}"><title>{in_html(t.name)}: {t.snr_db:.1f} dB</title></rect>')
    return wide(end + 8, _HIGH + 4, shapes)


def _high(db: float) -> float:
    return min(max(db, 0.0), _MOST) / _MOST * (_HIGH - 8)


def _tensors(tensors: Sequence[TensorReport]) -> str:
    heads = ("tensor", "operator", "type", "scale", "zero", "SNR dB", "cosine", "clipped", "values")
    rows = "".join(_row(t) for t in tensors)
    return f"<table><thead><tr>{''.join(f'<th>{h}</th>' for h in heads)}</tr></thead><tbody>{rows}</tbody></table>\n"


def _row(t: TensorReport) -> str:
    clipped = ' class="bad"' if t.saturated > 0.01 else ""
    cells = f'<td class="name">{in_html(t.name)}</td><td>{in_html(t.operator)}</td><td>{t.type}</td>'
    cells += f"<td>{t.scale:.4g}</td>"
    cells += f"<td>{t.zero_point}</td><td>{t.snr_db:.1f}</td><td>{t.cosine:.5f}</td>"
    return f"<tr>{cells}<td{clipped}>{100 * t.saturated:.2f} %</td><td>{_histogram(t)}</td></tr>\n"


def _histogram(t: TensorReport) -> str:
    """Float values as an area, quantised ones as a line over it, both of logarithmic height."""
    most = log(1 + max(1, *t.counts, *t.quantized_counts))
    step = _WIDTH / len(t.counts)

    def outline(counts: Sequence[int]) -> str:
        heights = [_HEIGHT - log(1 + count) / most * (_HEIGHT - 2) for count in counts]
        return " ".join(f"{x * step:.1f},{y:.1f}" for i, y in enumerate(heights) for x in (i, i + 1))

    area = f'<polygon points="0,{_HEIGHT} {outline(t.counts)} {_WIDTH},{_HEIGHT}" fill="#cfe3f1"/>'
    line = f'<polyline points="{outline(t.quantized_counts)}" fill="none" stroke="{COLOURS[0]}"/>'
    title = f"<title>{t.edges[0]:.4g} to {t.edges[-1]:.4g}</title>"
    return svg(_WIDTH, _HEIGHT, [title, area, line, *(_bound(t, value) for value in t.reach)])


def _bound(t: TensorReport, value: float) -> str:
    """A line where the integers end, if that is within the picture."""
    low, high = t.edges[0], t.edges[-1]
    x = (value - low) / (high - low) * _WIDTH
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_HEIGHT}" stroke="#c00000"/>' if 0 <= x <= _WIDTH else ""


def _costly(layers: Sequence[Sensitivity]) -> list[str]:
    """A bar per layer: the outputs' noise if it alone is quantised, the costliest first."""
    if not layers:
        return []
    shapes = []
    for i, layer in enumerate(layers):
        y, long = i * (_BAR + 4), max(0.0, 1 - layer.snr_db / _MOST) * _LONG
        shapes.append(f'<rect x="0" y="{y}" width="{long + 2:.0f}" height="{_BAR}" fill="{COLOURS[1]}"/>')
        label = f"{layer.snr_db:.1f} dB  {layer.operator}  {layer.name}"
        shapes.append(f'<text x="{long + 8:.0f}" y="{y + 13}">{in_html(label)}</text>')
    title = "<h2>One layer quantised alone: what is left of the outputs</h2>\n<p>Longer bars: more noise.</p>\n"
    return [title, wide(2 * _LONG, len(layers) * (_BAR + 4), shapes)]
