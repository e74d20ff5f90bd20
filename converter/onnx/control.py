"""If, Loop and Scan. What is known is read in place: the branch of a constant condition, the steps of a short loop. The
rest becomes TFLite's IF and WHILE, with subgraphs for branches and steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from twinfer.converter.emit.emitter import constant
from twinfer.converter.onnx.bodies import inner_graphs, outer_names
from twinfer.converter.onnx.finish import finish
from twinfer.converter.onnx.reader import Control, Reader
from twinfer.converter.passes import PIPELINE, run
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Tensor

#: Steps times nodes of a loop that is written out. With layers in it, steps are written out up to the second number:
#: ``converter.loops`` makes a loop of them again, in integers, too.
SHORT, SHORT_WITH_LAYERS = 256, 4096

#: What a loop that cannot be a WHILE may have at most when it is written out.
LONGEST = 16384

LAYERS = frozenset(("MatMul", "Gemm", "Conv", "ConvTranspose", "LSTM", "GRU", "RNN"))

#: More steps than a counter has mean: as long as the condition is true.
ENDLESS = 1 << 31

Results = Sequence[Tensor] | None


def if_(reader: Reader, proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> Results:
    """None if a result is lost. The branches see the values around them."""
    condition, graphs = inputs[0], {a.name: a.g for a in proto.attribute}
    if condition is None or condition.size != 1:
        raise ModelError(f"If {proto.name or list(proto.output)}: the condition must be one value")
    if condition.data is not None:
        return reader.branch(graphs["then_branch" if condition.data.item() else "else_branch"]).results()
    captured, made = _captured(reader, graphs.values()), list[Graph]()
    name = next(filter(None, proto.output))
    for kind in ("then_branch", "else_branch"):
        inside = _Inside(reader, graphs[kind], f"{name}/{kind}", captured)
        results = inside.reader.results()
        if results is None:
            return None
        made.append(inside.graph(results))
    given = [[f"{t.type}{list(t.shape)}" for t in graph.outputs] for graph in made]
    if given[0] != given[1]:
        raise UnsupportedOperatorError(
            f"its branches give {', '.join(given[0])} and {', '.join(given[1])}, but shapes must be known ahead: "
            "make the condition a constant (--constant NAME=1)"
        )
    reader.subgraphs += made
    at = len(reader.subgraphs)
    return reader.emitter.call(
        "IF", [condition, *captured], made[0].outputs, then_subgraph_index=at - 1, else_subgraph_index=at
    )


def _captured(reader: Reader, graphs: Iterable[onnx.GraphProto]) -> dict[Tensor, None]:
    """What graphs read of the values around them that only a run knows."""
    values = [reader.values.get(name) for graph in graphs for name in outer_names(graph)]
    return {t: None for t in values if t is not None and t.data is None}


class _Inside:
    """A graph that becomes a subgraph, while it is read. ``inputs``: what stands in it for values around it, and
    whatever else it is given."""

    def __init__(self, outer: Reader, graph: onnx.GraphProto, name: str, captured: Iterable[Tensor]) -> None:
        self.reader = outer.subgraph(name, graph)
        self.name = name
        self.inputs: dict[Tensor, Tensor] = {}
        for tensor in captured:
            self.inputs[tensor] = self.input(tensor.name, tensor)
        values = {name: outer.values[name] for name in outer_names(graph) if name in outer.values}
        self.reader.values.update({name: self.inputs.get(t, t) for name, t in values.items()})

    def input(self, name: str, like: Tensor) -> Tensor:
        return self.reader.emitter.builder.add(Tensor(name, like.type, like.shape, like.quant))

    def graph(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor] | None = None) -> Graph:
        """The subgraph, after the passes: later ones see the main graph alone."""
        emitter = self.reader.emitter
        emitter.builder.inputs = list(self.inputs.values() if inputs is None else inputs)
        names = [f"{self.name}/output_{i}" for i in range(len(outputs))]
        graph = finish(emitter, dict(zip(names, outputs, strict=True)), names)
        return run(replace(graph, signatures=(), extra={**graph.extra, "read": True}), PIPELINE)


# -- loops -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Loop:
    """A Loop or a Scan. ``count``: steps at most, a number or a value; None: as long as the condition is true.
    ``going``: the condition before the first step, None if it is true. ``counts``: whether a step is given its number
    and the condition, and gives the next one. ``rows``: tensors of which each step gets a row, with axis and whether
    the last row is first. ``joined``: axis and order for results of all steps."""

    body: onnx.GraphProto
    count: int | Tensor | None
    going: Tensor | None
    counts: bool
    states: Sequence[Tensor]
    rows: Sequence[tuple[Tensor, int, bool]]
    joined: Sequence[tuple[int, bool]]
    name: str


def loop(reader: Reader, proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> Results:
    most, going, *states = inputs
    body = next(a.g for a in proto.attribute if a.name == "body")
    count: int | Tensor | None = most
    if most is not None and most.data is not None:
        count = int(most.data.item()) if most.data.item() < ENDLESS else None
    known = [t for t in states if t is not None]
    rest = len(body.output) - 1 - len(known)
    name = next(filter(None, proto.output))
    return _either(reader, _Loop(body, count, going, True, known, (), [(0, False)] * rest, name))


def scan(reader: Reader, proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> Results:
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
    body, taken = attributes["body"], int(attributes["num_scan_inputs"])
    known = [t for t in inputs if t is not None]
    states, xs = known[: len(known) - taken], known[len(known) - taken :]
    rest = len(body.output) - len(states)

    def given(name: str, count: int) -> list[int]:
        return list(attributes.get(name, [0] * count))

    axes, backwards = given("scan_input_axes", taken), given("scan_input_directions", taken)
    rows = [(x, axis % len(x.shape), bool(b)) for x, axis, b in zip(xs, axes, backwards, strict=True)]
    joined = [
        (axis, bool(b))
        for axis, b in zip(given("scan_output_axes", rest), given("scan_output_directions", rest), strict=True)
    ]
    counts = {x.shape[axis] for x, axis, _ in rows}
    if len(counts) != 1:
        raise ModelError(f"Scan {proto.name or list(proto.output)}: its inputs have {sorted(counts)} rows")
    name = next(filter(None, proto.output))
    return _either(reader, _Loop(body, counts.pop(), None, False, states, rows, joined, name))


def _either(reader: Reader, loop: _Loop) -> Results:
    """The steps one after the other where they are few, else a WHILE."""
    if loop.going is not None and loop.going.data is not None:
        loop = replace(loop, going=None, count=loop.count if loop.going.data.item() else 0)
    if isinstance(loop.count, int) and loop.count < 1:
        if loop.joined:
            raise UnsupportedOperatorError("loops that join rows, but take no step")
        return loop.states
    kinds = list(_kinds(loop.body))
    size = loop.count * len(kinds) if isinstance(loop.count, int) else LONGEST + 1
    short = size <= (SHORT if LAYERS.isdisjoint(kinds) else SHORT_WITH_LAYERS)
    if loop.going is not None or size > LONGEST:
        return _while(reader, loop)
    try:
        return (_written_out if short else _while)(reader, loop)
    except UnsupportedOperatorError:  # states that grow, or a condition that a run computes
        return (_while if short else _written_out)(reader, loop)


def _kinds(graph: onnx.GraphProto) -> Iterable[str]:
    for node in graph.node:
        yield node.op_type
        for inner in inner_graphs(node):
            yield from _kinds(inner)


def _written_out(reader: Reader, loop: _Loop) -> Results:
    """All steps. UnsupportedOperatorError if the condition is not known ahead."""
    g, states, parts = reader.emitter, list(loop.states), [list[Tensor]() for _ in loop.joined]
    count = loop.count if isinstance(loop.count, int) else 0
    for step in range(count):
        given = [constant(np.array(step, np.int64)), constant(np.array(True))] if loop.counts else []
        for x, axis, backwards in loop.rows:
            at = count - 1 - step if backwards else step
            begin = [at if i == axis else 0 for i in range(len(x.shape))]
            row = constant(np.take(x.data, [at], axis)) if x.data is not None else None
            row = row or g.part(x, begin, [1 if i == axis else d for i, d in enumerate(x.shape)])
            states.append(g.reshape(row, [d for i, d in enumerate(x.shape) if i != axis]))
        results = reader.branch(loop.body).results([*given, *states])
        if results is None:
            return None
        goes, values = (results[0].data, results[1:]) if loop.counts else (np.array(True), results)
        if goes is None:
            raise UnsupportedOperatorError("a condition that is known at run time only")
        states = values[: len(loop.states)]
        for part, value in zip(parts, values[len(loop.states) :], strict=True):
            part.append(value)
        if not goes.item():
            break
    joined = []
    for part, (axis, backwards) in zip(parts, loop.joined, strict=True):
        axis = axis % (len(part[0].shape) + 1)
        rows = [g.reshape(row, _with(row.shape, axis, 1)) for row in (part[::-1] if backwards else part)]
        joined.append(g.concat(rows, axis))
    return [*states, *joined]


def _with(shape: Sequence[int], axis: int, extent: int) -> tuple[int, ...]:
    return (*shape[:axis], extent, *shape[axis:])


def _while(reader: Reader, loop: _Loop) -> Results:
    """A WHILE over a counter, the condition if it changes, the states, rows that are filled, and what steps read."""
    around = dict.fromkeys((*_captured(reader, [loop.body]), *(x for x, *_ in loop.rows)))
    around |= {loop.count: None} if isinstance(loop.count, Tensor) else {}
    inside = _Inside(reader, loop.body, f"{loop.name}/step", around)
    body, g = inside.reader, inside.reader.emitter
    counter = inside.input(f"{loop.name}/counter", Tensor("", "INT32", (1,)))
    states = [inside.input(f"{loop.name}/state_{i}", t) for i, t in enumerate(loop.states)]
    number = g.cast(g.reshape(counter, ()), "INT64")
    given = [number, constant(np.array(True))] if loop.counts else []
    rows = [_row(inside, loop, counter, *row) for row in loop.rows]
    results = body.results([*given, *states, *rows])
    if results is None:
        return None
    goes, values = (results[0], results[1:]) if loop.counts else (None, results)
    for old, new in zip(states, values, strict=False):
        if (old.type, old.shape) != (new.type, new.shape):
            before, behind = (f"{t.type}{list(t.shape)}" for t in (old, new))
            raise UnsupportedOperatorError(f"a value that is {before} before a step and {behind} behind it")
    if goes is not None and goes.data is not None:
        if not goes.data.item():
            return _written_out(reader, replace(loop, count=1))
        goes = None if loop.going is None else goes
    if loop.joined and (goes is not None or not isinstance(loop.count, int)):
        raise UnsupportedOperatorError("rows of a loop whose number of steps is known at run time only")
    conditions = [] if goes is None else [inside.input(f"{loop.name}/going", goes)]
    filled = [_filled(inside, loop, counter, *each) for each in zip(loop.joined, values[len(states) :], strict=True)]
    more = g.binary("ADD", counter, np.array([1], np.int32))
    passed = [*inside.inputs.values()]
    inputs = [counter, *conditions, *states, *(old for old, _ in filled), *passed]
    after = [more, *([] if goes is None else [goes]), *values[: len(states)], *(new for _, new in filled), *passed]
    step = inside.graph(after, inputs)
    test = _test(reader, loop, inputs, None if goes is None else 1, inside.inputs)
    reader.subgraphs += [test, step]
    buffers = [_zeros(reader, old) for old, _ in filled]
    first = [] if goes is None else [constant(np.array(True)) if loop.going is None else loop.going]
    first = [reader.emitter.reshape(t, goes.shape) for t in first if goes is not None]
    begin = [constant(np.array([0], np.int32)), *first, *loop.states, *buffers, *around]
    at = len(reader.subgraphs)
    ends = reader.emitter.call("WHILE", begin, begin, cond_subgraph_index=at - 1, body_subgraph_index=at)
    skip = 1 + len(conditions)
    return ends[skip : skip + len(states) + len(filled)]


def _at(inside: _Inside, loop: _Loop, counter: Tensor, backwards: bool) -> Tensor:
    """Which row belongs to the step."""
    if not backwards or not isinstance(loop.count, int):
        return counter
    return inside.reader.emitter.binary("SUB", np.array([loop.count - 1], np.int32), counter)


def _row(inside: _Inside, loop: _Loop, counter: Tensor, x: Tensor, axis: int, backwards: bool) -> Tensor:
    g, x = inside.reader.emitter, inside.inputs.get(x, x)
    rest = x.shape[axis + 1 :]
    row = g.emit("GATHER", [x, _at(inside, loop, counter, backwards)], (*x.shape[:axis], 1, *rest), axis=axis)
    return g.reshape(row, (*x.shape[:axis], *rest))


def _filled(
    inside: _Inside, loop: _Loop, counter: Tensor, how: tuple[int, bool], value: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows of all steps before a step, and behind it, with the value in its place."""
    g, count = inside.reader.emitter, loop.count if isinstance(loop.count, int) else 0
    axis = how[0] % (len(value.shape) + 1)
    row = g.reshape(value, _with(value.shape, axis, 1))
    whole = replace(row, shape=_with(value.shape, axis, count))
    old = inside.input(f"{loop.name}/rows_{len(g.builder.tensors)}", whole)
    unit = np.array([i == axis for i in range(len(row.shape))], np.int32)
    place = g.binary("MUL", _at(inside, loop, counter, how[1]), unit)
    return old, g.emit("DYNAMIC_UPDATE_SLICE", [old, row, place], old.shape)


def _zeros(reader: Reader, like: Tensor) -> Tensor:
    shape = np.array(like.shape, np.int32)
    return reader.emitter.emit("FILL", [shape, np.zeros((), like.dtype)], like.shape, like.type)


def _test(
    reader: Reader, loop: _Loop, inputs: Sequence[Tensor], going: int | None, inside: Mapping[Tensor, Tensor]
) -> Graph:
    """The subgraph that says whether there is another step."""
    seen = _Inside(reader, onnx.GraphProto(), f"{loop.name}/test", ())
    own, g = [seen.input(t.name, t) for t in inputs], seen.reader.emitter
    goes = [] if going is None else [g.reshape(own[going], (1,))]
    if isinstance(loop.count, int):
        goes.append(g.binary("LESS", own[0], np.array([loop.count], np.int32), type="BOOL"))
    elif loop.count is not None:
        limit = g.reshape(own[list(inputs).index(inside[loop.count])], (1,))
        goes.append(g.binary("LESS", g.cast(own[0], limit.type), limit, type="BOOL"))
    if not goes:
        raise UnsupportedOperatorError("a loop without an end")
    return seen.graph([goes[0] if len(goes) == 1 else g.binary("LOGICAL_AND", goes[0], goes[1])], own)


#: Operator -> what reads it.
CONTROL: Mapping[str, Control] = {
    "If": if_,
    "Loop": loop,
    "Scan": scan,
}
