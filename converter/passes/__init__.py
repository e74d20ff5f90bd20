"""Passes: functions ``Graph -> Graph``, found by discovery, and the order in which ``convert`` runs them.

A pass is one file here: ``<name>.py`` holds the function ``<name>``. ``PLACES`` in the file says where the pipeline
runs it: once per place. The pipeline takes the places of all files in rising order. It begins at QUANTISING unless
``convert`` quantises. A pass without PLACES runs by name only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType

from twinfer.converter.passes._rewrite import Pass
from twinfer.converter.table import modules_of
from twinfer.runtime.check import check
from twinfer.runtime.graph import Graph
from twinfer.runtime.stages import tell

__all__ = ["PASSES", "PIPELINE", "TO_QUANTIZE", "Pass", "pipeline_of", "run"]

#: Passes with a place below this prepare a graph for quantisation.
QUANTISING = 10


def pipeline_of(package: ModuleType, least: float = QUANTISING) -> tuple[Pass, ...]:
    """The passes in the package that have a place from ``least`` on, by their places."""
    placed = [(place, name, step) for name, (step, places) in _placed(package).items() for place in places]
    return tuple(step for place, _, step in sorted(placed, key=lambda p: p[:2]) if place >= least)


def _placed(package: ModuleType) -> dict[str, tuple[Pass, Sequence[float]]]:
    """Every pass of the package and its places, by name."""
    modules = {module.__name__.rpartition(".")[2]: module for module in modules_of(package)}
    return {name: (getattr(module, name), getattr(module, "PLACES", ())) for name, module in modules.items()}


#: What ``convert`` runs, in this order. It is a plain tuple: leave out, repeat or add what you like.
PIPELINE: tuple[Pass, ...] = pipeline_of(sys.modules[__name__])

#: What it runs where it quantises.
TO_QUANTIZE: tuple[Pass, ...] = pipeline_of(sys.modules[__name__], 0)

#: Every pass by name: first those of the pipeline, in their order, then the others.
PASSES: Mapping[str, Pass] = MappingProxyType(
    {step.__name__: step for step in (*TO_QUANTIZE, *(step for step, _ in _placed(sys.modules[__name__]).values()))}
)


def run(graph: Graph, pipeline: Sequence[Pass] = PIPELINE, after: Callable[[str, Graph], None] | None = None) -> Graph:
    """The graph after the passes in turn; ``check`` sees it behind each. Subgraphs of control flow stay as they are.

    ``after`` is called with the name of every pass and the graph behind it.
    """
    for step in pipeline:
        before, graph = graph, step(graph)
        check(graph)
        if graph is not before:
            tell(step.__name__, (step.__doc__ or "").partition("\n")[0], before, graph)
        if after is not None:
            after(step.__name__, graph)
    return graph
