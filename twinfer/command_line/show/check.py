"""What ``twinfer convert --check`` shows."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.converter.check import Check


def tables(check: Check) -> Iterator[RenderableType]:
    """Every output's error, in every engine, and which engines could not run the result."""
    columns = ("<output", "<by", "max error", "of range", "RMSE", "cosine", "SNR dB")
    shown = table(f"Beside {check.engine}", *columns)
    for output in check.outputs:
        bad = check.bound is not None and output.share > check.bound
        figures = (f"{output.error:.3g}", f"{output.share:.1e}", f"{output.rmse:.3g}", f"{output.cosine:.6f}")
        shown.add_row(output.name, output.engine, *figures, f"{output.snr_db:.1f}", style="red" if bad else "")
    yield shown
    for engine, why in check.notes.items():
        yield Text(f"{engine}: {why}", style="yellow")
