"""The plan in a model's metadata: three int32 (version, subgraphs, tensors), then an offset per tensor, or -1.

The tensors are those of all subgraphs, one subgraph after the other. TFLM reads neither version nor number of
subgraphs. Before pull request 1195 (of 2022) it took the offsets of every subgraph from the start of the list: a plan
for a model with control flow needs a later TFLM. Since pull request 1676 (of 2023) a plan may also place variables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from twinfer.converter.offline.check import fault
from twinfer.converter.offline.place import bytes_in_tflm, needs_place, places_in_tflm, takes_memory
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Tensor, walk
from twinfer.runtime.metadata import OFFLINE_PLAN

#: The version of the format.
_VERSION = 1

#: Bytes before the offsets.
_HEADER = 12

#: What stands for an offset that TFLM is to find itself.
_TFLM_PLACES = -1


@dataclass(frozen=True)
class StoredPlan:
    """A memory plan for TFLM that a model brings along.

    It places ``tensors`` in ``bytes`` of TFLM's arena, and leaves it to TFLM to place ``left`` others. ``fault`` says
    why it must not be used, "" if it is sound. ``own_bytes`` is what twinfer's plan would take; None: there is none.
    """

    tensors: int
    left: int
    bytes: int
    fault: str
    own_bytes: int | None

    def __str__(self) -> str:
        left = f" ({self.left} more are left to TFLM)" if self.left else ""
        sound = f"{self.tensors} tensors in {self.bytes:,} bytes{left}, sound"
        return f"memory plan for TFLM: {f'not sound: {self.fault}' if self.fault else sound}"


def with_plan(graph: Graph) -> Graph:
    """The graph with a memory plan for TFLM in its metadata, by which TFLM places the tensors of its file.

    UnsupportedOperatorError for a graph that has no plan, because of its size or its calls of subgraphs.
    """
    places = places_in_tflm(graph)
    if wrong := fault(graph, places):
        raise RuntimeError(f"the planner is wrong: {wrong}")
    offsets = [places.get(tensor, _TFLM_PLACES) for tensor in _tensors(graph)]
    content = np.array([_VERSION, 1 + len(graph.subgraphs), len(offsets), *offsets], "<i4").tobytes()
    return replace(graph, metadata={**graph.metadata, OFFLINE_PLAN: content})


def stored_plan(graph: Graph) -> StoredPlan | None:
    """The plan in the graph's metadata, checked against the graph; None if there is none."""
    content = graph.metadata.get(OFFLINE_PLAN)
    if content is None:
        return None
    places: dict[Tensor, int] = {}
    own_bytes = None
    try:
        own_bytes = bytes_in_tflm(places_in_tflm(graph))
        places = _read(content, graph)
        wrong = fault(graph, places)
    except (ModelError, UnsupportedOperatorError) as error:
        wrong = str(error)
    left = sum(needs_place(tensor) and tensor not in places for tensor in _tensors(graph))
    return StoredPlan(len(places), left, bytes_in_tflm(places), wrong, own_bytes)


def _tensors(graph: Graph) -> list[Tensor]:
    return [tensor for each in walk(graph) for tensor in each.tensors]


def _read(content: bytes, graph: Graph) -> dict[Tensor, int]:
    """The offsets of tensors that TFLM places by the plan; what follows the offsets is nobody's. ModelError if it does
    not hold an offset for each of the model's tensors."""
    if len(content) < _HEADER:
        raise ModelError(f"it has {len(content)} bytes, its header alone takes {_HEADER}")
    tensors, count = _tensors(graph), int.from_bytes(content[8:_HEADER], "little")
    if count != len(tensors):
        raise ModelError(f"it is for {count} tensors, the model has {len(tensors)}: TFLM refuses the model")
    if len(content) < _HEADER + 4 * count:
        raise ModelError(f"it has {len(content)} bytes, {count} tensors take {_HEADER + 4 * count}")
    offsets = np.frombuffer(content, "<i4", count, _HEADER).tolist()
    return {t: at for t, at in zip(tensors, offsets, strict=True) if at != _TFLM_PLACES and takes_memory(t)}
