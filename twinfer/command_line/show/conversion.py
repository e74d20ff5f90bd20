"""What ``twinfer convert --report`` shows."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.command_line.terminal import console
from twinfer.converter.quantize.compare import Report

#: Characters that a line needs for columns of layers' names, of operators, and nine of figures.
ROOMY = 110


def tables(report: Report) -> list[Table]:
    """Every tensor, which layers cost most, and what the weights take."""
    compared = [_tensors(report), _costly(report), _outputs(report)] if report.tensors else []
    return [*compared, _compression(report)]


def _tensors(report: Report) -> Table:
    columns = ("<tensor", "<operator", "<type", "scale", "zero", "SNR dB", "cosine", "clipped")
    every = table("Quantised beside float", *columns)
    for t in report.tensors:
        real = f"{t.scale:.4g}", str(t.zero_point)
        every.add_row(
            Text(t.name), t.operator, t.type, *real, f"{t.snr_db:.1f}", f"{t.cosine:.5f}", f"{100 * t.saturated:.2f} %"
        )
    return every


def _costly(report: Report) -> Table:
    costly = table("One layer quantised alone: the worst output", "<layer", "<operator", "SNR dB")
    for s in report.sensitivity:
        costly.add_row(Text(s.name), s.operator, f"{s.snr_db:.1f}")
    return costly


def _outputs(report: Report) -> Table:
    outputs = table("The outputs, the worst first", "<output", "SNR dB")
    for output in report.outputs:
        outputs.add_row(Text(output.name), f"{output.snr_db:.1f}")
    return outputs


def _compression(report: Report) -> Table:
    """Weights of every layer: their bytes of flash now, and in every coding."""
    named = ("<layer", "<operator") if console().width >= ROOMY else ("<layer",)
    columns = (*named, "<type", "zeros", "values", "entropy\nbits", "plain\nB", "bitmap\nB", "table\nB", "Huffman\nB")
    lines = table("Weights in flash: estimates", *columns, "least\nB", gap=len(named))
    for f in report.compression:
        coded = ["-" if size is None else f"{size:,}" for size in (f.plain, f.bitmap, f.lut, f.huffman, f.least)]
        facts = f"{100 * f.sparsity:.1f} %", f"{f.distinct:,}", f"{f.entropy_bits:.2f}"
        lines.add_row(Text(f.name), *(f.operator,)[: len(named) - 1], f.type, *facts, *coded)
    weights = sum(f.weights for f in report.compression)
    zeros = sum(f.sparsity * f.weights for f in report.compression) / max(1, weights)
    plain, least = sum(f.plain for f in report.compression), sum(f.least for f in report.compression)
    lines.add_section()
    lines.add_row("all", *("",) * len(named), f"{100 * zeros:.1f} %", "", "", f"{plain:,}", "", "", "", f"{least:,}")
    return lines
