"""What is done to a source's graph before it is quantised or written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from twinfer.converter.passes import TO_QUANTIZE, Pass, run
from twinfer.converter.passes.nhwc_io import channels_last as to_channels_last
from twinfer.converter.table import with_versions
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import Graph


def optimise(
    graph: Graph,
    passes: Sequence[Pass] = TO_QUANTIZE,
    after: Callable[[str, Graph], None] | None = None,
    channels_last: bool | Sequence[str] = False,
) -> Graph:
    """The graph of ``read_source`` after the passes, by default those that quantisation begins with. Warns if there are
    others beside it."""
    if channels_last:
        names = (channels_last,) if isinstance(channels_last, str) else channels_last
        graph = to_channels_last(graph, () if isinstance(names, bool) else tuple(names))
    if beside := [each for each in graph.subgraphs if "read" not in each.extra]:  # those of ONNX were optimised there
        names = ", ".join(repr(g.extra.get("subgraph_name", g.name)) for g in beside[:3])
        more = ", …" if len(beside) > 3 else ""
        count = f"{len(beside)} subgraph(s)"
        what = f"{graph.name}: the main graph is converted, {count} beside it stay as they are"
        warnings.warn(f"{what}: {names}{more}", ModelWarning, stacklevel=4)
    return with_versions(run(graph, passes, after), graph)
