"""Calibration: run the float graph over samples, and note what values every float tensor takes."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import numpy as np

from twinfer.converter.quantize.affine import LIMITS
from twinfer.converter.quantize.lost import KEPT, MOST_BYTES, Values, cones, keep, note
from twinfer.converter.quantize.masks import Spans, far, maskable, observe
from twinfer.converter.quantize.observed import Observed
from twinfer.converter.quantize.samples import Samples, count_of, samples_of
from twinfer.converter.table import row_of
from twinfer.runtime.control import CONTROL
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning, UnsupportedOperatorError
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: ``progress(done, total)`` after every sample; the total is None if the samples must be read to count them.
Progress = Callable[[int, int | None], None]

#: Samples after which an output that never changes is told.
ENOUGH = 8

#: States of which a run shows only the last value, and functions that compute all their values afterwards.
Histories = Mapping[Tensor, Callable[[Session], Array]]


def calibrate(
    graph: Graph, samples: Samples, progress: Progress | None = None, types: Collection[str] = tuple(LIMITS)
) -> dict[Tensor, Observed]:
    """Run ``graph`` (float, all shapes known) on every sample, one at a time, and observe all its float tensors.

    ``types``: the integer types for which values are looked for that would be lost in them (``lost``).

    Every sample runs from fresh state. If an operator ``streams``, the samples are successive inputs of one stream.
    Memory does not grow with the number of samples; their order only changes the moving averages. Raises
    InvalidArgumentError for data that do not fit the graph's inputs (``samples_of``) and for a tensor with NaN or
    infinity; UnsupportedOperatorError for operators without a kernel, and for control flow and variables. Warns with
    ModelWarning of inputs and outputs that never change, and of integers for a float input.
    """
    counts = Counter(node.op for node in graph.nodes if node.op in CONTROL)  # whose values are not observed
    if counts:
        what = ", ".join(f"{op} x{count}" for op, count in counts.items())
        advice = "convert it without quantisation, export its loops and branches as plain layers, or "
        advice += "convert the source with --no-loops and quantise that"
        raise UnsupportedOperatorError(f"{graph.name} cannot be quantised, for it has {what}: {advice}")
    session = Session(make_plan(graph, options=Options(preserve_all=True)))
    seen = {t: Observed() for t in graph.tensors if t.type == "FLOAT32" and t.data is None}
    histories, masked = _histories(graph), maskable(graph)
    total = count_of(graph, samples) if progress else None
    parts = cones(graph)
    wanted = {t for part in parts for t in part.tensors}
    most = MOST_BYTES // max(1, sum(t.nbytes for t in wanted))
    kept: list[Values] = []
    first: dict[Tensor, Array] = {}
    varied: set[Tensor] = set()
    for i, sample in enumerate(samples_of(graph, samples, warn=True)):
        run(session, sample)
        made = {t: session.view(t) for t in graph.outputs if t in seen and t in session.plan.offsets}
        given = (*sample.items(), *made.items())
        first = first or {t: value.copy() for t, value in given}
        varied |= {t for t, value in given if t not in varied and not np.array_equal(value, first[t])}
        _observe(session, seen, histories, masked, i)
        if i in KEPT and wanted and len(kept) <= most:
            kept.append(keep(wanted, session))
        if progress is not None:
            progress(i + 1, total)
    for tensor in graph.inputs:
        _warn_if_constant(tensor, seen.get(tensor), tensor in varied)
    if varied.intersection(graph.inputs):
        _warn_if_outputs_are_constant(graph, seen, varied)
    note(parts, kept, seen, types)
    return seen


def _histories(graph: Graph) -> Histories:
    histories: dict[Tensor, Callable[[Session], Array]] = {}
    for node in graph.nodes:
        state = row_of(node).state
        if state is not None and state.history is not None:
            position, values = state.history
            histories[node.input(position)] = lambda session, node=node, values=values: values(  # type: ignore[misc]
                node, session.view(node.input(0))
            )
    return histories


def _observe(session: Session, seen: Mapping[Tensor, Observed], histories: Histories, masked: Spans, i: int) -> None:
    """Adds what the run of sample ``i`` left in every tensor."""
    for tensor, observed in seen.items():
        if tensor in histories:
            observed.add(histories[tensor](session))
        elif tensor in session.plan.offsets and tensor.size:
            value = session.view(tensor)
            if tensor in masked:
                finite(value[~np.any(far(value, masked[tensor]), 0)], tensor, i, session.plan.graph)
                observe(observed, value, masked[tensor])
            else:
                observed.add(finite(value, tensor, i, session.plan.graph))


def _warn_if_constant(tensor: Tensor, seen: Observed | None, varied: bool) -> None:
    """Warns of an input that never changes in calibration: its range, and those behind it, are a guess."""
    if seen is None or any(seen.far) or varied or seen.count * tensor.size <= 1:
        return
    if seen.low == seen.high:
        what = f"is {seen.low:g} everywhere in all {seen.count} samples; give data like those in use"
    elif seen.count > 1:
        what = f"is the same in all {seen.count} samples; give different ones, or make it a constant (constants=…)"
    else:
        return
    warnings.warn(f"calibration data: input {tensor.name!r} {what}", ModelWarning, stacklevel=2)


def _warn_if_outputs_are_constant(graph: Graph, seen: Mapping[Tensor, Observed], varied: set[Tensor]) -> None:
    """Warns of outputs that never change where the inputs do: everything before them may be saturated."""
    same = [t for t in graph.outputs if t in seen and t not in varied and seen[t].count >= ENOUGH]
    if same:
        given = ", ".join(f"{t.name!r} from {seen[t].low:g} to {seen[t].high:g}" for t in graph.inputs if t in seen)
        what = f"output {same[0].name!r} is the same for all {seen[same[0]].count} samples, though they differ"
        how = f"scale the inputs as in training (here {given or 'integers'})"
        warnings.warn(f"calibration data: {what}; {how}", ModelWarning, stacklevel=2)


def streams(graph: Graph) -> bool:
    """Whether samples are parts of a stream, so that a state lasts from one to the next."""
    return any(state is not None and state.streams for state in (row_of(node).state for node in graph.nodes))


def run(session: Session, sample: Mapping[Tensor, Array]) -> None:
    """One inference, from fresh state unless samples are parts of a stream."""
    if not streams(session.plan.graph):
        session.reset_variables()
    for tensor, value in sample.items():
        session.view(tensor)[...] = value
    session.run()


def finite(value: Array, tensor: Tensor, i: int, graph: Graph) -> Array:
    """The value. InvalidArgumentError with tensor, sample and likely cause if it holds NaN or infinity."""
    if np.isfinite(value).all():
        return value
    bad = value[~np.isfinite(value)][0]
    makers = [node for node in graph.nodes if tensor in node.outputs]
    constants = [t for node in makers for t in node.inputs if t is not None and not finite_data(t)]
    if constants:
        why = f"its constant {constants[0]} is not finite: give it finite values"
    elif makers and makers[0].op == "SOFTMAX" and np.isnan(bad):
        why = "a row that is masked whole has no greatest value: leave one value of each row unmasked, or mask by -1e9"
    else:
        why = "look at the model's weights and that sample"
        why += "" if np.isnan(bad) else "; only masks that nothing but SOFTMAX or MAX_POOL_2D reads may be infinite"
    raise InvalidArgumentError(f"{tensor} takes the value {bad} on calibration sample {i}: {why}")


def finite_data(tensor: Tensor) -> bool:
    """Whether a tensor is no constant, or one without NaN and infinities."""
    data = None if tensor.data is None else np.asarray(tensor.data)
    return data is None or data.dtype.kind != "f" or bool(np.isfinite(data).all())
