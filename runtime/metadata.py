"""The entry of a model's metadata that speaks of its tensors by their position, so that it fits one file only."""

from __future__ import annotations

from dataclasses import replace

from twinfer.runtime.graph import Graph

#: Where TFLM (tflite-micro) finds a memory plan; ``twinfer.converter.offline`` reads and writes it.
OFFLINE_PLAN = "OfflineMemoryAllocation"


def without_plan(graph: Graph) -> Graph:
    """The graph without a memory plan for TFLM: what has other tensors than the file needs another plan."""
    if OFFLINE_PLAN not in graph.metadata:
        return graph
    return replace(graph, metadata={key: value for key, value in graph.metadata.items() if key != OFFLINE_PLAN})
