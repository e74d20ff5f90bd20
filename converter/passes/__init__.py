"""Passes: functions ``Graph -> Graph``, and the order in which ``convert`` runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from twinfer.converter.passes._rewrite import Pass
from twinfer.converter.passes.batch_norm import batch_norm
from twinfer.converter.passes.common_subexpressions import common_subexpressions
from twinfer.converter.passes.constant_folding import constant_folding
from twinfer.converter.passes.dead_code import dead_code
from twinfer.converter.passes.elementwise_constants import elementwise_constants
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.passes.float_weights import float_weights
from twinfer.converter.passes.fuse_activations import fuse_activations
from twinfer.converter.passes.fuse_padding import fuse_padding
from twinfer.converter.passes.horizontal_merge import horizontal_merge
from twinfer.converter.passes.identities import identities
from twinfer.converter.passes.merge_relus import merge_relus
from twinfer.converter.passes.multiplications import multiplications
from twinfer.converter.passes.nhwc_io import nhwc_io
from twinfer.converter.passes.reshapes import reshapes
from twinfer.converter.passes.transposes import transposes
from twinfer.runtime.check import check
from twinfer.runtime.graph import Graph

__all__ = ["PASSES", "PIPELINE", "TO_QUANTIZE", "Pass", "run"]

#: What ``convert`` runs, in this order: a plain tuple, leave out, repeat or add what you like.
PIPELINE: tuple[Pass, ...] = (
    constant_folding,
    common_subexpressions,
    identities,
    reshapes,
    merge_relus,
    fuse_activations,
    transposes,
    reshapes,
    elementwise_constants,
    merge_relus,
    fuse_padding,
    batch_norm,
    fuse_activations,
    identities,
    common_subexpressions,
    dead_code,
)

#: What it runs where it quantises.
TO_QUANTIZE: tuple[Pass, ...] = (float_weights, multiplications, *PIPELINE)

#: Every pass by name, also those that are not in the pipeline.
PASSES: Mapping[str, Pass] = MappingProxyType(
    {p.__name__: p for p in (*TO_QUANTIZE, equalize, horizontal_merge, nhwc_io)}
)


def run(graph: Graph, pipeline: Sequence[Pass] = PIPELINE, after: Callable[[str, Graph], None] | None = None) -> Graph:
    """The graph after the passes in turn; ``check`` sees it behind each. Subgraphs of control flow stay as they are.

    ``after`` is called with the name of every pass and the graph behind it.
    """
    for step in pipeline:
        graph = step(graph)
        check(graph)
        if after is not None:
            after(step.__name__, graph)
    return graph
