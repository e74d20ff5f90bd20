"""Which operators of a model stream, and which rows every tensor needs: one walk forwards, one backwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np

from twinfer.converter.stream.rules import (
    CONVOLUTIONS,
    POOLS,
    Need,
    Rule,
    Timed,
    Whole,
    geometry,
    in_time,
    is_single,
    rule,
)
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, Tensor


@dataclass(frozen=True)
class StreamPlan:
    """What becomes of every node and tensor.

    ``rules`` are those of the nodes that stream; ``whole`` are nodes that need all rows, with the reason; the rest has
    no time. ``needs`` has every tensor in time; ``timed`` is the timing of the input ``source``.
    """

    rules: Mapping[Node, Rule]
    whole: Mapping[Node, str]
    needs: Mapping[Tensor, Need]
    source: Tensor
    timed: Timed


def plan_rows(graph: Graph, source: Tensor, axis: int, hop: int | None) -> StreamPlan:
    """The plan for windows of ``source``, whose rows lie along ``axis``; ``hop`` is the least that all strides divide.

    The model keeps no state. Raises InvalidArgumentError if there are not several rows.
    """
    if not 0 <= axis < len(source.shape) or source.shape[axis] < 2:
        raise InvalidArgumentError(f"{source} has no rows along axis {axis}: name another one")
    if hop is not None and hop < 1:
        raise InvalidArgumentError(f"a step takes at least one new row, not {hop}")
    rows, step = source.shape[axis], hop or _least_hop(graph, source, axis)
    if not 0 < step < rows:
        raise InvalidArgumentError(f"{source} has {rows} rows along axis {axis}: {step} new ones a step are no stream")
    timed = {source: Timed(axis, rows, step)}
    rules, whole = _rules(graph, timed)
    needs = {tensor: Need(each) for tensor, each in timed.items()}
    _backwards(graph, rules, needs)
    return StreamPlan(rules, whole, needs, source, timed[source])


def _least_hop(graph: Graph, source: Tensor, axis: int) -> int:
    """The least number of new rows that every layer's stride divides."""
    hop = 1
    while True:
        timed = {source: Timed(axis, source.shape[axis], hop)}
        _rules(graph, timed)
        strides = list[tuple[int, int]]()  # of each layer whose windows slide over time, with the hop of its input
        for node in (node for node in graph.nodes if node.op in (*CONVOLUTIONS, *POOLS)):
            x = timed.get(node.input(0))
            if x is not None and not is_single(node, x):
                g = geometry(node)
                strides.append(({1: g.stride_h, 2: g.stride_w}.get(x.axis, 1), x.hop))
        short = [stride // gcd(stride, each) for stride, each in strides if each % stride]
        if not short or hop * short[0] >= source.shape[axis]:
            return hop
        hop *= short[0]


def _rules(graph: Graph, timed: dict[Tensor, Timed]) -> tuple[dict[Node, Rule], dict[Node, str]]:
    """The rules of all nodes that read tensors in time; ``timed`` gets their outputs."""
    rules, whole, varying = dict[Node, Rule](), dict[Node, str](), {*timed}
    for node in graph.nodes:
        given = [tensor for tensor in node.inputs if tensor in varying]
        varying.update(node.outputs if given else ())
        if not in_time(node, timed):
            continue
        try:
            if changes := [tensor for tensor in given if tensor not in timed]:
                raise Whole(f"{changes[0]} has other values in every window")
            rules[node] = rule(node, timed)
            timed.update(rules[node].outputs)
        except Whole as reason:
            whole[node] = str(reason)
    return rules, whole


def _backwards(graph: Graph, rules: Mapping[Node, Rule], needs: Mapping[Tensor, Need]) -> None:
    """Fill ``needs``: of an output in time the new rows, of the others what the nodes behind them read."""
    timed = {tensor: need.timed for tensor, need in needs.items()}
    for tensor in graph.outputs:
        if tensor in needs:
            needs[tensor].add((timed[tensor].rows - timed[tensor].hop, timed[tensor].rows))
    for node in reversed(graph.nodes):
        together = [needs[tensor].mask for tensor in node.outputs if tensor in needs]
        for mask in together:
            mask |= np.logical_or.reduce(together)
        for tensor in in_time(node, timed):
            read = [(0, timed[tensor].rows)]
            if node in rules:
                read = [rules[node].sliding.source(rows) for out in node.outputs for rows in needs[out].fresh]
            for rows in read:
                needs[tensor].add(rows)
