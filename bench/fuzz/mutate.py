"""Random nodes of every operator: an operator's own cases, changed step by step while its ``infer`` agrees."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from twinfer.bench.fuzz import changes
from twinfer.bench.fuzz.model import Rng, Trial, trial_of
from twinfer.bench.known.faults import LSTMS, RNNS
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Case
from twinfer.runtime.registry import operators
from twinfer.runtime.shapes import infer_node

#: The most elements of a tensor, so that a model takes milliseconds.
LARGEST = 4_096

#: How many changes are tried for a node, and the most that it keeps.
TRIES, MOST = 12, 5

Change = Callable[[Rng, Trial], Trial]

#: What may be changed, with how often it is chosen.
CHANGES: tuple[tuple[Change, float], ...] = (
    (changes.extent_everywhere, 4), (changes.extent_here, 2), (changes.rank, 1), (changes.scales, 4),
    (changes.zeros, 3), (changes.constant_values, 2), (changes.indices, 3), (changes.hold_or_feed, 1),
    (changes.types, 1.5),
)  # fmt: skip


@cache
def cases(op: str) -> tuple[Case, ...]:
    """The cases of an operator, always the same."""
    return tuple(operators()[op].cases(np.random.default_rng(20261121)))


@cache
def _tolerances(op: str) -> dict[tuple[str, ...], float]:
    """The largest tolerance of the cases whose inputs have these types: random values are not those of a case."""
    largest: dict[tuple[str, ...], float] = {}
    for case in cases(op):
        types = _types(case.node)
        largest[types] = max(largest.get(types, 0.0), case.tolerance)
    return largest


def _types(node: Node) -> tuple[str, ...]:
    return tuple(t.type for t in node.inputs if t is not None)


@cache
def _options(op: str) -> dict[str, tuple[Any, ...]]:
    """Every value that each option has in a case."""
    seen: dict[str, list[Any]] = {}
    for case in cases(op):
        for key, value in case.node.options.items():
            if value not in seen.setdefault(key, []):
                seen[key].append(value)
    return {key: tuple(values) for key, values in seen.items()}


def _option(rng: Rng, trial: Trial) -> Trial:
    """Another value of an option: one of another case, or a number beside it."""
    node = trial.node
    if not node.options:
        return trial
    key = str(rng.choice(sorted(node.options)))
    value = node.options[key]
    known = _options(node.op)[key]
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        value = int(value + rng.integers(-2, 3))
    elif isinstance(value, float) and rng.random() < 0.7:
        value = float(np.float32(value * math.exp(rng.normal())))
    else:
        value = known[int(rng.integers(len(known)))]
    return replace(trial, node=replace(node, options={**node.options, key: value}))


def random_trial(rng: Rng, op: str, refused: Counter[str], suits: Callable[[Case], bool] | None = None) -> Trial:
    """A random node of the operator; ``refused`` counts the changes that its ``infer`` did not take."""
    usual = cases(op)
    trials = [trial_of(case) for case in usual if suits is None or suits(case)]
    fit = [trial for trial in trials if all(t.size <= LARGEST for t in trial.tensors)]
    trial = (
        fit[int(rng.integers(len(fit)))]
        if fit
        else min(map(trial_of, usual), key=lambda t: sum(x.size for x in t.tensors))
    )
    wanted = int(rng.integers(0, MOST + 1))
    weights = np.array([weight for _, weight in (*CHANGES, (_option, 3))])
    for _ in range(TRIES if wanted else 0):
        change = (*(change for change, _ in CHANGES), _option)[int(rng.choice(len(weights), p=weights / weights.sum()))]
        changed = change(rng, trial)
        if changed is trial:
            continue
        accepted = accept(changed)
        if accepted is None:
            refused[op] += 1
            continue
        trial, wanted = accepted, wanted - 1
        if not wanted:
            break
    usual_tolerance = _tolerances(op).get(_types(trial.node), 0.0)
    return replace(trial, tolerance=tolerance_of(trial.node, max(trial.tolerance, usual_tolerance)))


def accept(trial: Trial) -> Trial | None:
    """The trial with the outputs' shapes as ``infer`` says; None if it refuses the node, or a tensor is too large."""
    try:
        if any(math.prod(t.shape) > LARGEST for t in trial.tensors if t not in trial.node.outputs):
            return None
        shapes = infer_node(trial.node)
        if any(math.prod(shape) > LARGEST for shape in shapes):
            return None
        pairs = zip(trial.node.outputs, shapes, strict=True)
        return trial.swap({t: replace(t, shape=shape) for t, shape in pairs if t.shape != shape})
    except TwinferError:
        return None


#: Codes from 0 to the largest state, and values of a row for which the tolerance of a case is enough.
CODES, WIDTH = 127, 8


def tolerance_of(node: Node, tolerance: float) -> float:
    """The tolerance of a node, relative to its largest output: of RNNs and LSTMs of float values it is larger.

    Their outputs lie in -1..1, where sums of wide rows may be far larger, and so is what rounding loses in them. With
    weights of int8 the state is quantised at every step, too: one that lies at a half in this or that library becomes
    the next code, and the sums it goes into differ by a step times a weight.
    """
    if node.op not in f"{RNNS} {LSTMS}".split() or node.input(0).type != "FLOAT32":
        return tolerance
    rows = sum(_largest_row(t) for t in node.inputs if t is not None and t.type == "INT8")
    x = node.input(0)
    steps = 1 if len(x.shape) == 2 else x.shape[0 if node.options.get("time_major") else 1]
    width = max(t.shape[-1] for t in node.inputs if t is not None and t.shape)
    return max(tolerance * max(1, width / WIDTH), steps * rows / CODES)


def _largest_row(weights: Tensor) -> float:
    """The largest sum of magnitudes of a row."""
    least = weights.shape[-1] * 127.0 if weights.data is None else float(abs(weights.data.astype(int)).sum(-1).max())
    return least * weights.scale
