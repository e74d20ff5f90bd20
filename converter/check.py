"""How far a conversion is from its source, as the source's own runtime computes it: output by output, and where they
part."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from twinfer.converter.passes.nhwc_io import CHANNELS_FIRST
from twinfer.converter.quantize.affine import real, to_stored
from twinfer.converter.quantize.compare import Sums, in_words
from twinfer.converter.quantize.samples import Samples, samples_of
from twinfer.converter.runtimes import Origin, origin_of
from twinfer.converter.source import Shapes, Source, read_source
from twinfer.converter.table import row_of
from twinfer.runtime.errors import InvalidArgumentError, ToolError, TwinferError
from twinfer.runtime.graph import Array, Graph, Node, Tensor, walk
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session

#: Errors below this share of the range are rounding, and told without their figure.
LITTLE = 1e-5

#: How many random samples are drawn, and the most of a file that are run.
DRAWN, MOST = 3, 100

#: Random integers that are no quantised values, such as indices: below this or, where that is refused, below 2.
BELOW = 10

#: Inputs by the source's name in its layout, those of the result in its order, and the source's outputs.
Run = tuple[Mapping[str, Array], Sequence[Array], Sequence[Array]]

#: Runs the result's bytes in another engine: (content, samples, number of outputs) -> outputs of every sample.
Engine = Callable[[bytes, Sequence[Sequence[Array]], int], Sequence[Sequence[Array]]]


@dataclass(frozen=True)
class OutputCheck:
    """One output over all samples, in one engine. Errors are of what integers stand for, where the
    source has floats.

    ``span``: from the source's least value to its greatest, 0 among them, or what the operator can give if that is
    known (LOGISTIC: 0 to 1). ``rmse``: root of the mean square error.
    """

    name: str
    engine: str
    error: float
    span: float
    rmse: float
    cosine: float
    snr_db: float

    @property
    def share(self) -> float:
        """The largest error as a share of the range."""
        return self.error / self.span if self.span else (0.0 if self.error == 0 else math.inf)


@dataclass(frozen=True)
class Deviation:
    """The first value inside the model whose error is past the bound."""

    name: str
    operator: str
    share: float
    stage: str

    def __str__(self) -> str:
        return f"the first value that is off is {self.name!r} ({self.operator}), by {percent(self.share)}; {self.stage}"


@dataclass(frozen=True)
class Check:
    """A result beside its source. ``bound``: the largest share of an output's range that an error may have; None for
    quantised results, for which the signal-to-noise ratio counts. ``notes``: engines that could not run the result."""

    engine: str
    samples: int
    drawn: bool
    outputs: tuple[OutputCheck, ...]
    bound: float | None
    quantised: bool
    first: Deviation | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def worst(self) -> OutputCheck | None:
        key = (lambda o: -o.snr_db) if self.quantised else (lambda o: o.share)
        return max(self.outputs, key=key, default=None)

    @property
    def good(self) -> bool:
        return self.bound is None or all(output.share <= self.bound for output in self.outputs)

    def __str__(self) -> str:
        kind = "random sample" if self.drawn else "sample"
        where = f"{self.engine} on {self.samples} {kind}{'s' * (self.samples != 1)}"
        if self.worst is None:
            return f"beside {where}: there is no output to compare"
        error = f"largest error {percent(self.worst.share)}"
        if self.quantised:
            error = f"outputs at {in_words(self.worst.snr_db)}, {error}"
        if self.good:
            return f"beside {where}: {error}"
        more = f"; {self.first}" if self.first else ""
        return f"beside {where}: {error}, in output {self.worst.name!r}; {self.bound:g} is the limit{more}"


def percent(share: float) -> str:
    """A share of the range in words."""
    if share < LITTLE:
        return "0" if share == 0 else f"below {LITTLE:g} of the range"
    return f"{share:.1e} of the range" if share < 0.01 else f"{100 * share:.3g} % of the range"


def check(
    source: Source,
    graph: Graph,
    samples: Samples | None = None,
    *,
    shapes: Shapes | None = None,
    constants: Mapping[str, Any] | None = None,
    bound: float | None = None,
    lossy: bool = False,
    drawn: int = DRAWN,
    most: int = MOST,
    seed: int = 0,
    imported: Graph | None = None,
    layout: Graph | None = None,
    plan: Plan | None = None,
    engines: Mapping[str, Engine] | None = None,
) -> Check:
    """Runs ``source`` in its own runtime and ``graph``, which ``convert`` made of it, on the same samples::

        graph = twinfer.convert("model.onnx", quantize="int8", calibration=data)
        print(twinfer.check("model.onnx", graph, data))

    ``source``, ``shapes`` and ``constants`` as those of ``convert``. ONNX models run in ONNX Runtime, .keras files and
    Keras models in Keras, .pt2 files in PyTorch; .tflite files and graphs in our interpreter, as they are.
    ``samples``: as calibration data, in the layout of the result; ``most`` of them are run. None draws some (``drawn``,
    ``seed``).
    ``bound``: the largest error that is good, as a share of the output's range; by default ``BOUND`` for float results
    (0.01 where the source computes in 16 bits), none for those that are quantised or, by ``lossy``, pruned.
    ``imported``, ``layout``, ``plan``: the graph before the passes, one with the inputs that ``samples`` are for, and
    the plan of ``graph``, if known.
    ``engines`` run the result beside our interpreter, by name.

    Raises ToolError if the runtime is not installed or cannot run the model, InvalidArgumentError for samples that do
    not fit.
    """
    imported = read_source(source, shapes, constants) if imported is None else imported
    origin = origin_of(source, imported, constants or {})
    integers = _has_integers(graph) and not (origin.same_bits and _has_integers(imported))
    limit = bound if bound is not None else None if integers or lossy else origin.bound
    ends = _Ends(imported, graph)
    if samples is None:
        runs = [*_drawn_runs(origin, ends, drawn, seed)]
    else:
        runs = [*_given_runs(origin, ends, samples, layout, most)]
    plan = plan or make_plan(graph)
    checked = judge(plan, runs, origin.engine, limit, drawn=samples is None, quantised=integers or lossy)
    for name, engine in (engines or {}).items():
        checked = _beside(checked, graph, runs, name, engine)
    if checked.good or checked.quantised:
        return checked
    try:
        return replace(checked, first=_first(origin, imported, graph, runs[0], limit or 0.0))
    except TwinferError:  # what was compared stays
        return checked


def judge(
    plan: Plan, runs: Sequence[Run], engine: str, bound: float | None, *, drawn: bool = True, quantised: bool = False
) -> Check:
    """What our interpreter makes of the inputs beside the outputs that are wanted, of any engine."""
    session, results = Session(plan), []
    for _, inputs, _ in runs:
        session.reset_variables()
        session.feed([_stored(value, t) for value, t in zip(inputs, session.plan.graph.inputs, strict=True)])
        session.run()
        results.append([value.copy() for value in session.outputs()])
    outputs = _compared(session.plan.graph, session.plan.graph.outputs, runs, results, "twinfer")
    return Check(engine, len(runs), drawn, tuple(outputs), bound, quantised)


def _beside(checked: Check, graph: Graph, runs: Sequence[Run], name: str, engine: Engine) -> Check:
    """The check with another engine's figures for the result, or with why it has none."""
    from twinfer.runtime.write.tflite import write

    samples = [[_stored(value, t) for value, t in zip(inputs, graph.inputs, strict=True)] for _, inputs, _ in runs]
    try:
        results = engine(write(graph), samples, len(graph.outputs))
    except ToolError as error:
        return replace(checked, notes={**checked.notes, name: str(error)})
    return replace(checked, outputs=(*checked.outputs, *_compared(graph, graph.outputs, runs, results, name)))


def _compared(
    graph: Graph, tensors: Sequence[Tensor], runs: Sequence[Run], results: Sequence[Sequence[Array]], engine: str
) -> Iterator[OutputCheck]:
    """The figures of tensors of the graph beside the wanted values at the same places."""
    makers = {t: node for node in graph.nodes for t in node.outputs}
    for i, tensor in enumerate(tensors):
        sums, error, (low, high) = Sums(), 0.0, _reach(makers, tensor)
        for (_, _, wanted), result in zip(runs, results, strict=True):
            stored = wanted[i].dtype.kind in "iu"  # integers stay such, with the same scale
            got = (result[i].astype(np.float64) if stored else real(result[i], tensor)).reshape(-1)
            want = wanted[i].astype(np.float64).reshape(-1)
            if want.size != got.size:
                what = f"output {tensor.name!r} has {got.size} elements, the source's has {want.size}"
                raise InvalidArgumentError(f"{what}: is the result one of this source, with these shapes?")
            same = (want == got) | (np.isnan(want) & np.isnan(got))
            with np.errstate(invalid="ignore"):
                off = np.where(same, 0.0, np.abs(want - got))
            error = max(error, float(np.nan_to_num(off, nan=np.inf).max(initial=0.0)))
            finite = np.isfinite(want)
            low, high = min(low, want[finite].min(initial=0.0)), max(high, want[finite].max(initial=0.0))
            counted = finite | ~same  # equal infinities have no energy
            sums.add(want[counted], got[counted])
        rmse = math.sqrt(sums.noise / sums.count) if sums.count and sums.noise >= 0 else math.inf
        yield OutputCheck(tensor.name, engine, error, float(high - low), rmse, sums.cosine, sums.snr_db)


def _reach(makers: Mapping[Tensor, Node], tensor: Tensor) -> tuple[float, float]:
    """What the operator that computes a tensor can give, if that has two ends; else 0 alone."""
    node = makers.get(tensor)
    while node is not None and (row_of(node).moves is not None or node.op in ("DEQUANTIZE", "QUANTIZE")):
        node = makers.get(node.input(0))
    reach = (0.0, 0.0) if node is None else row_of(node).range
    return reach if all(map(math.isfinite, reach)) else (0.0, 0.0)


def _stored(value: Array, tensor: Tensor) -> Array:
    """A value in the type and shape of an input of the result."""
    stored = to_stored(value, tensor) if value.dtype.kind == "f" else value
    return np.ascontiguousarray(stored.astype(tensor.dtype).reshape(tensor.shape))


def _has_integers(graph: Graph) -> bool:
    """Whether layers compute with quantised integers."""
    nodes = [node for each in walk(graph) for node in each.nodes]
    tensors = [t for node in nodes for t in (*node.inputs, *node.outputs) if t is not None]
    return any(t.quant is not None and t.dtype.kind in "iu" and t.type != "INT32" for t in tensors)


class _Ends:
    """Inputs and outputs of a result beside those of the graph that was read. ``turned``: the result's have the
    channels last, the source's second."""

    def __init__(self, imported: Graph, graph: Graph) -> None:
        for what, there, here in (
            ("inputs", imported.inputs, graph.inputs),
            ("outputs", imported.outputs, graph.outputs),
        ):
            if len(there) != len(here):
                raise InvalidArgumentError(f"the source has {len(there)} {what}, the result {len(here)}")
        self.imported, self.graph = imported, graph
        before, after = (g.extra.get(CHANNELS_FIRST) for g in (imported, graph))
        self._turned = None if before is None or after is None else set(before) - set(after)

    def turned(self, there: Tensor, here: Tensor) -> bool:
        last = (*there.shape[:1], *there.shape[2:], *there.shape[1:2])
        if len(there.shape) < 3 or here.shape != last:
            return False
        return there.shape != here.shape if self._turned is None else there.name in self._turned

    @property
    def pairs(self) -> list[tuple[Tensor, Tensor, bool]]:
        """The inputs of source and result, and whether they are turned."""
        both = zip(self.imported.inputs, self.graph.inputs, strict=True)
        return [(there, here, self.turned(there, here)) for there, here in both]

    def outputs(self, values: Sequence[Array]) -> list[Array]:
        """The source's outputs in the result's layout."""
        ends = zip(self.imported.outputs, self.graph.outputs, values, strict=True)
        return [np.moveaxis(v, 1, -1) if self.turned(there, here) and v.ndim > 2 else v for there, here, v in ends]


def _asked(ends: _Ends) -> Graph:
    """A graph of the inputs alone: the source's types in the result's shapes."""
    asked = tuple(replace(there, shape=here.shape, name=here.name) for there, here, _ in ends.pairs)
    return Graph("samples", asked, (), asked, ())


def _given_runs(origin: Origin, ends: _Ends, samples: Samples, layout: Graph | None, most: int) -> Iterator[Run]:
    for sample in islice(samples_of(layout or _asked(ends), samples), most):
        yield _run(origin, ends, [*sample.values()])


def _drawn_runs(origin: Origin, ends: _Ends, count: int, seed: int) -> Iterator[Run]:
    asked = _asked(ends)
    for i in range(count):
        try:
            yield _run(origin, ends, _drawn(asked, seed + i, BELOW))
        except ToolError:
            if not any(_is_number(t) for t in asked.inputs):
                raise
            yield _run(origin, ends, _drawn(asked, seed + i, 2))


def _is_number(tensor: Tensor) -> bool:
    """Whether a tensor may hold indices or counts."""
    return tensor.type in ("INT32", "INT64", "UINT32", "UINT64") and tensor.quant is None


def _drawn(graph: Graph, seed: int, below: int) -> list[Array]:
    values = random_inputs(graph, seed)
    return [abs(v % below).astype(v.dtype) if _is_number(t) else v for t, v in zip(graph.inputs, values, strict=True)]


def _run(origin: Origin, ends: _Ends, values: Sequence[Array]) -> Run:
    pairs = zip(ends.pairs, values, strict=True)
    there = {t.name: np.moveaxis(v, -1, 1) if turned else v for (t, _, turned), v in pairs}
    return there, values, ends.outputs(origin.run(there))


def _first(origin: Origin, imported: Graph, graph: Graph, run: Run, bound: float) -> Deviation | None:
    """The first value that is off: of the graph that was read beside the source's own, else of the result beside it."""
    before = Session(make_plan(imported, options=Options(preserve_all=True)))
    before.feed([_stored(run[0][t.name], t) for t in before.plan.graph.inputs])
    before.run()
    seen = {t.name: before.view(t) for t in before.plan.graph.tensors if t in before.plan.offsets}
    stage = "it is off as soon as it is read: please report it"
    if found := _parted(imported, origin.inner(run[0], list(seen)), seen, bound, stage):
        return found
    after = Session(make_plan(graph, options=Options(preserve_all=True)))
    after.feed([_stored(value, t) for value, t in zip(run[1], after.plan.graph.inputs, strict=True)])
    after.run()
    results = {t.name: after.view(t) for t in after.plan.graph.tensors if t in after.plan.offsets}
    return _parted(graph, seen, results, bound, "a pass changes it: leave passes out (--passes), and please report it")


def _parted(
    graph: Graph, wanted: Mapping[str, Array], got: Mapping[str, Array], bound: float, stage: str
) -> Deviation | None:
    """The first value, in the order of the nodes, that both have and that differs."""
    for node in graph.nodes:
        for tensor in node.outputs:
            want, have = wanted.get(tensor.name), got.get(tensor.name)
            if want is None or have is None:
                continue
            layouts = [want, *([np.moveaxis(want, 1, -1)] if want.ndim > 2 else [])]  # images may have become NHWC
            pairs: list[Run] = [({}, (), (each,)) for each in layouts if each.shape == have.shape]
            shares = [found.share for run in pairs for found in _compared(graph, [tensor], [run], [(have,)], "")]
            if shares and min(shares) > bound:
                return Deviation(tensor.name, node.op, min(shares), stage)
    return None
