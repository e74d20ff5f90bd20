"""The table of ``twinfer tune``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.host.tune import Tuned, loss
from twinfer.bench.measure.report import number, table
from twinfer.runtime.plan.tuned import Setting

#: The most by which the usual choice should be slower than the best, as a share.
FAIR = 0.05


def shown(name: str, tuned: Sequence[Tuned], kept: str) -> Iterator[RenderableType]:
    """Each layer as it usually is and as it is best here, then both sums."""
    grid = table(f"Ways to compute {name}", "#", "<operator", "<output", "<usual", "µs", "<best", "µs", "gain")
    for layer in tuned:
        usual, best = (layer.times[way] / 1e3 for way in (layer.usual, layer.best))
        same = layer.best == layer.usual
        grid.add_row(
            str(layer.index),
            layer.node.op,
            "×".join(map(str, layer.node.output.shape)),
            way_name(layer.usual),
            number(usual),
            Text("the same", style="dim") if same else way_name(layer.best),
            "" if same else number(best),
            "" if same else f"{100 * (usual / max(best, 1e-3) - 1):.0f} %",
        )
    yield grid
    share = loss(tuned)
    verdict = "within" if share <= FAIR else "not within"
    yield Text(f"The usual ways take {100 * share:.1f} % longer than the best: {verdict} {100 * FAIR:.0f} %.")
    yield Text(f"Kept in {kept}; Interpreter(tuned=True) and compile --target native --tuned take it.")


def way_name(way: Setting) -> str:
    """A way in a few words: its variant, and the size of its blocks if that is not the usual one."""
    return f"{way.variant}, blocks of {way.block}" if way.block else way.variant
