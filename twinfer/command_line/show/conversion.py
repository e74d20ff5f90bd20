"""What ``twinfer convert --report`` shows."""

from __future__ import annotations

from rich.table import Table

from twinfer.bench.measure.report import table
from twinfer.command_line.terminal import console
from twinfer.converter.compress.layers import Footprint
from twinfer.converter.quantize.compare import Report, TensorReport
from twinfer.converter.search.auto import SCORES, Chosen

#: Characters that a line needs for columns of layers' names, of operators, and nine of figures.
ROOMY = 110


def tables(report: Report) -> list[Table]:
    """Every tensor, which layers cost most, and what the weights take."""
    if not report.tensors:
        return [_compression(report)]
    columns = ("<tensor", "<operator", "<type", "scale", "zero", "SNR dB", "cosine", "clipped")
    every = table("Quantised beside float", *columns)
    for t in report.tensors:
        every.add_row(*tensor_cells(t))
    costly = table("One layer quantised alone: the worst output", "<layer", "<operator", "SNR dB")
    for s in report.sensitivity:
        costly.add_row(s.name, s.operator, f"{s.snr_db:.1f}")
    outputs = table("The outputs, the worst first", "<output", "SNR dB")
    for output in report.outputs:
        outputs.add_row(output.name, f"{output.snr_db:.1f}")
    return [every, costly, outputs, _compression(report)]


def chosen_tables(chosen: Chosen) -> list[Table]:
    """What ``--quantize auto`` chose beside whole models, and the layers that differ from the rest."""
    best, layers = chosen.best, dict(chosen.best.setting.layers)
    judge = () if chosen.goal.max_loss is None else (SCORES[chosen.job.judge.metric],)
    columns = ("<precision", *judge, "SNR dB", "for sure", "instructions", "flash B", "RAM B", "cost")
    rows = table(f"Estimated for {chosen.job.target.name}: {chosen.goal} is good enough", *columns, gap=1)
    every = {**chosen.whole, **({"mixed": best} if layers else {})}
    for name, trial in sorted(every.items(), key=lambda row: row[1].cost):
        score = (f"{trial.score:.4f}",) if judge else ()
        costs = (f"{figure:,}" for figure in (trial.instructions, trial.flash, trial.ram, trial.cost))
        style = "bold green" if trial == best else ""
        rows.add_row(name, *score, f"{trial.snr_db:.1f}", f"{trial.sure_db:.1f}", *costs, style=style)
    if not layers:
        return [rows]
    own = table(f"Layers that are not in {best.setting.precision}", "<layer", "<precision")
    for name, precision in layers.items():
        own.add_row(name, precision)
    return [rows, own]


def tensor_cells(t: TensorReport) -> list[str]:
    """Name, operator, type, scale, zero point, signal-to-noise ratio, cosine, and the share that is clipped."""
    figures = (f"{t.scale:.4g}", f"{t.zero_point}", f"{t.snr_db:.1f}", f"{t.cosine:.5f}")
    return [t.name, t.operator, t.type, *figures, f"{100 * t.saturated:.2f} %"]


def footprint_cells(f: Footprint) -> list[str]:
    """Type, share of zeros, different values, entropy, and the bytes: plain, and by each coding."""
    coded = ["-" if size is None else f"{size:,}" for size in (f.plain, f.bitmap, f.lut, f.huffman)]
    return [f.type, f"{100 * f.sparsity:.1f} %", f"{f.distinct:,}", f"{f.entropy_bits:.2f}", *coded]


def _compression(report: Report) -> Table:
    """Weights of every layer: their bytes of flash now, and in every coding."""
    named = ("<layer", "<operator") if console().width >= ROOMY else ("<layer",)
    columns = (*named, "<type", "zeros", "values", "entropy\nbits", "plain\nB", "bitmap\nB", "table\nB", "Huffman\nB")
    lines = table("Weights in flash: estimates", *columns, "least\nB", gap=len(named))
    for f in report.compression:
        lines.add_row(*(f.name, f.operator)[: len(named)], *footprint_cells(f), f"{f.least:,}")
    weights = sum(f.weights for f in report.compression)
    zeros = sum(f.sparsity * f.weights for f in report.compression) / max(1, weights)
    plain, least = sum(f.plain for f in report.compression), sum(f.least for f in report.compression)
    lines.add_section()
    lines.add_row("all", *("",) * len(named), f"{100 * zeros:.1f} %", "", "", f"{plain:,}", "", "", "", f"{least:,}")
    return lines
