"""Finds steps that a graph repeats, as recurrent layers written out over time do, and makes a WHILE of them.

Everything before this works on a graph without control flow: passes, calibration, quantisation. ``tie_scales`` tells
the quantiser which tensors are the same value of different steps, so that all steps get the same numbers; ``roll`` then
writes the step once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, repeat
from typing import Any

import numpy as np

from twinfer.converter.passes._rewrite import rebuild, swap_tensors
from twinfer.converter.passes.constant_folding import BEGINS
from twinfer.converter.table import row_of, with_versions
from twinfer.runtime.check import check
from twinfer.runtime.graph import Graph, Node, Tensor, consumers, walk
from twinfer.runtime.read import schema
from twinfer.runtime.write.tflite import write

#: Steps that a loop has at least, and nodes that a step has at most.
LEAST_STEPS, MOST_NODES = 3, 512

#: A value of a step: which of its nodes makes it, and as which output.
Place = tuple[int, int]


@dataclass(frozen=True)
class Loop:
    """``count`` steps of ``period`` nodes each, from node ``first`` of the graph on.

    ``sources`` says where a step's inputs come from, by node and input: a Place of the same step, or a key of
    ``carried``, ``picks`` or ``outer``, or a constant. ``carried``: values of the step before, with what the first step
    gets. ``picks``: rows of a tensor that are taken one after the other, as (axis, the first, 1 or -1). ``rows``:
    values of all steps that a CONCATENATION joins, in order or backwards.
    """

    nodes: Sequence[Node]
    first: int
    period: int
    count: int
    carried: dict[Place, Tensor] = field(default_factory=dict)
    picks: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    outer: dict[Tensor, None] = field(default_factory=dict)
    rows: dict[Place, tuple[Node, bool]] = field(default_factory=dict)
    finals: dict[Place, None] = field(default_factory=dict)

    def node(self, step: int, at: int) -> Node:
        return self.nodes[self.first + step * self.period + at]

    def value(self, step: int, place: Place) -> Tensor:
        return self.node(step, place[0]).outputs[place[1]]

    def values(self, place: Place) -> list[Tensor]:
        return [self.value(step, place) for step in range(self.count)]

    @property
    def all_nodes(self) -> Sequence[Node]:
        return self.nodes[self.first : self.last]

    @property
    def last(self) -> int:
        return self.first + self.count * self.period


def found(graph: Graph) -> list[Loop]:
    """The repetitions that can become loops."""
    return list(_loops(_near(graph)))


def tie_scales(loops: Iterable[Loop]) -> list[list[Tensor]]:
    """Tensors that must share a scale, so that the steps of every loop are alike in integers, too."""
    groups = []
    for loop in loops:
        for at in range(loop.period):
            for i in range(len(loop.node(0, at).outputs)):
                first, joined = loop.carried.get((at, i)), loop.rows.get((at, i))
                more = [first, *(() if joined is None else (joined[0].output, *joined[0].inputs))]
                groups.append(dict.fromkeys([*loop.values((at, i)), *(t for t in more if t is not None)]))
    return [[t for t in group if t.type == "FLOAT32" and t.data is None] for group in groups]


def roll(graph: Graph, named: bool = True) -> Graph:
    """The graph with a WHILE in the place of every repetition, where that makes the file smaller. ``named``: tensors in
    it have names.

    Inputs are quantised first, so that the first step is like the others.
    """
    ends = [node for node in graph.nodes if node.op == "QUANTIZE" and node.input(0) in graph.inputs]
    size, ahead = None, rebuild(graph, dict.fromkeys((*ends, *graph.nodes)))
    for _ in range(MOST_NODES):
        ahead = _near(ahead)
        loop = next(_loops(ahead), None)
        if loop is None:
            return graph
        size = len(write(graph)) if size is None else size
        smaller = with_versions(_with_loop(ahead, loop, named))
        if (now := len(write(smaller))) >= size:
            return graph
        graph, ahead, size = smaller, smaller, now
    return graph


def _near(graph: Graph) -> Graph:
    """The graph with every SLICE and RESHAPE that has one reader right before it: PyTorch's exporter cuts the rows of
    all steps before the first."""
    readers = consumers(graph)
    late = {
        node.output: node
        for node in graph.nodes
        if node.op in ("RESHAPE", "SLICE") and len(readers.get(node.output, ())) == 1
        if not node.output.variable and not node.input(0).variable and BEGINS not in node.extra
    }
    order: list[Node] = []
    for node in graph.nodes:
        if node.outputs and node.outputs[0] in late:
            continue
        chain, ahead = [node], [t for t in node.inputs if t in late]
        while ahead:
            maker = late[ahead.pop()]
            chain.append(maker)
            ahead += [t for t in maker.inputs if t in late]
        order += dict.fromkeys(chain[::-1])
    return graph if order == list(graph.nodes) else rebuild(graph, order)


# -- finding -----------------------------------------------------------------------------------------------------------


def _loops(graph: Graph) -> Iterator[Loop]:
    """Repetitions that can be a loop, the longest first; no node is in two."""
    if len(graph.nodes) < LEAST_STEPS * 4:
        return
    keys: dict[Any, int] = {}
    ids = np.array([keys.setdefault(_key(node), len(keys)) for node in graph.nodes])
    taken = np.zeros(len(ids), bool)
    weighty = np.array([row_of(node).parameters is not None for node in graph.nodes])
    for first, period, length in _repetitions(ids):
        if not weighty[first : first + period].any():
            continue
        for loop in _alignments(graph, first, period, length):
            if not taken[loop.first : loop.last].any():
                taken[loop.first : loop.last] = True
                yield loop
                break


def _key(node: Node) -> Any:
    """What nodes of different steps have in common: all but the tensors, and where a SLICE begins."""
    options = repr(sorted(node.options.items()))
    values = [None if t is None else _described(t, node.op == "SLICE" and i == 1) for i, t in enumerate(node.inputs)]
    return node.op, options, node.version, repr(values), repr([_described(t, True) for t in node.outputs])


def _described(tensor: Tensor, shape_only: bool) -> Any:
    quant = tensor.quant and (tensor.quant.scale.tobytes(), tensor.quant.zero_point.tobytes(), tensor.quant.axis)
    data = None if tensor.data is None or shape_only else hashlib.sha256(tensor.data.tobytes()).digest()
    return tensor.type, tensor.shape, quant, data, tensor.data is None, tensor.variable


def _repetitions(ids: np.ndarray) -> list[tuple[int, int, int]]:
    """(first node, nodes of a step, nodes that equal the one a step later), what saves most nodes first."""
    found = []
    for period in range(2, min(len(ids) // LEAST_STEPS, MOST_NODES) + 1):
        equal = np.concatenate([[False], ids[:-period] == ids[period:], [False]])
        edges = np.flatnonzero(equal[1:] != equal[:-1])
        for first, end in zip(edges[::2], edges[1::2], strict=True):
            if (end - first) // period + 1 >= LEAST_STEPS:
                found.append((int(first), period, int(end - first)))
    return sorted(found, key=lambda each: (-(each[2] // each[1]) * each[1], each[1]))


def _alignments(graph: Graph, first: int, period: int, length: int) -> list[Loop]:
    """The loops that begin at each node of the first step that leaves as many steps; what carries least is first."""
    count = length // period + 1
    readers = consumers(graph)
    public = {*graph.outputs, *(t for s in graph.signatures for t in (*s.inputs.values(), *s.outputs.values()))}
    loops = []
    for more in range(length - (count - 1) * period + 1):
        loop = Loop(graph.nodes, first + more, period, count)
        if _fill(loop, graph, readers, public):
            loops.append(loop)
    return sorted(loops, key=lambda loop: sum(loop.value(0, p).nbytes for p in {**loop.carried, **loop.finals}))


def _fill(loop: Loop, graph: Graph, readers: Mapping[Tensor, list[Node]], public: set[Tensor]) -> bool:
    """Finds out where the values of a step come from and go to; False if that is no loop."""
    places = {
        t: (step, (at, i))
        for step in range(loop.count)
        for at in range(loop.period)
        for i, t in enumerate(loop.node(step, at).outputs)
    }
    for at in range(loop.period):
        for i in range(len(loop.node(0, at).inputs)):
            if not _comes(loop, at, i, [loop.node(step, at).inputs[i] for step in range(loop.count)], places):
                return False
    inside = {node.index for node in graph.nodes[loop.first : loop.last]}
    for tensor, (step, place) in places.items():
        outside = [node for node in readers.get(tensor, ()) if node.index not in inside]
        if tensor in public or (outside and step == loop.count - 1):
            loop.finals[place] = None
        if (tensor in public and step < loop.count - 1) or not all(
            _goes(loop, place, n) for n in outside if step < loop.count - 1
        ):
            return False
    return len({sign for _, _, sign in loop.picks.values()}) <= 1


def _comes(
    loop: Loop, at: int, i: int, values: Sequence[Tensor | None], places: Mapping[Tensor, tuple[int, Place]]
) -> bool:
    """Whether an input of a node is something that a loop can have."""
    known = [t for t in values if t is not None]
    if not known or all(t.data is not None for t in known):
        data = [np.asarray(t.data) for t in known]
        return all(np.array_equal(each, data[0]) for each in data) or _picks(loop, at, data)
    if any(t.variable for t in known):
        return False
    if all(t is known[0] for t in known) and known[0] not in places:
        loop.outer[known[0]] = None
        return True
    where = [places.get(t) for t in known]
    if all(w is not None and w == (step, (where[0] or w)[1]) for step, w in enumerate(where)):
        return True
    place = where[1][1] if where[1] else None
    before = place is not None and all(w == (step, place) for step, w in enumerate(where[1:]))
    first = known[0]
    if not before or place is None or first in places:
        return False
    return loop.carried.setdefault(place, first) is first


def _picks(loop: Loop, at: int, begins: list[np.ndarray]) -> bool:
    """Whether a SLICE takes one row after the other of a tensor that stays."""
    node = loop.node(0, at)
    steps = np.diff(np.stack(begins), axis=0)
    axes = np.flatnonzero(steps.any(0))
    if node.op != "SLICE" or len(axes) != 1:
        return False
    axis, sign = int(axes[0]), int(steps[0, axes[0]])
    x, y = node.input(0), node.output
    whole = all(n == m for d, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)) if d != axis)
    if not whole or y.shape[axis] != 1 or abs(sign) != 1 or (steps[:, axis] != sign).any():
        return False
    loop.picks[at] = (axis, int(begins[0][axis]), sign)
    return True


def _goes(loop: Loop, place: Place, reader: Node) -> bool:
    """Whether a node behind the loop joins this value of all steps."""
    values, inputs = loop.values(place), list(reader.inputs)
    if reader.op != "CONCATENATION" or reader.options.get("fused_activation_function", "NONE") != "NONE":
        return False
    for backwards in (False, True):
        row = values[::-1] if backwards else values
        begins = [
            i for i in range(len(inputs) - len(row) + 1) if inputs[i] is row[0] and inputs[i : i + len(row)] == row
        ]
        if len(begins) == 1 and sum(t in set(row) for t in inputs) == len(row):
            return loop.rows.setdefault(place, (reader, backwards)) == (reader, backwards)
    return False


# -- writing -----------------------------------------------------------------------------------------------------------


@dataclass
class _Body:
    """The subgraph of a step while it is written. ``inside``: what stands in it for a tensor of the first step."""

    loop: Loop
    name: str
    nodes: list[Node] = field(default_factory=list)
    inside: dict[Tensor, Tensor] = field(default_factory=dict)
    counted: int = 0

    def add(self, op: str, inputs: Sequence[Tensor], output: Tensor, **options: Any) -> Tensor:
        filled = {**schema.default_options(op), **options}
        self.nodes.append(Node(op, tuple(inputs), (output,), filled, index=len(self.nodes)))
        return output

    def made(self, kind: str, shape: tuple[int, ...]) -> Tensor:
        self.counted += 1
        return Tensor(f"{self.name}/{self.counted}", kind, shape)

    def numbers(self, *values: int) -> Tensor:
        named = f"{self.name}/value_{len(self.nodes)}_{self.counted}"  # a name that ``share_constants`` makes short
        return Tensor(named, "INT32", (len(values),), data=np.array(values, np.int32))

    def of(self, tensor: Tensor) -> Tensor:
        """The tensor of the body that stands for one of the first step, or a constant."""
        if tensor not in self.inside:
            self.inside[tensor] = replace(tensor)
        return self.inside[tensor]

    def position(self, counter: Tensor, sign: int, offset: int) -> Tensor:
        """offset + sign * counter, in as few operators as it takes."""
        if sign < 0:
            return self.add("SUB", [self.numbers(offset), counter], self.made("INT32", (1,)))
        return self.add("ADD", [counter, self.numbers(offset)], self.made("INT32", (1,))) if offset else counter


def _with_loop(graph: Graph, loop: Loop, named: bool) -> Graph:
    """The graph with a WHILE for these nodes: over a counter, what steps hand on, rows that are filled, and what all
    steps read."""
    name = f"{loop.node(0, 0).output.name}/loop"
    body = _Body(loop, name)
    _, start, sign = next(iter(loop.picks.values()), (0, 0, 1))
    counter = body.made("INT32", (1,))
    values = list(dict.fromkeys((*loop.carried, *(p for p in loop.finals if p not in loop.carried))))
    first = [
        loop.carried.get(p)  # or a constant in the place of a value that no step reads before it is written
        or replace(v, name=f"{name}/none_{i}", data=np.zeros(v.shape, v.dtype), shape_signature=())
        for i, (p, v) in enumerate((p, loop.value(0, p)) for p in values)
    ]
    states = [replace(loop.value(0, p), name=f"{name}/state_{i}") for i, p in enumerate(values)]
    before = {p: state for p, state in zip(values, states, strict=True) if p in loop.carried}
    buffers = [_buffer(loop, p, f"{name}/rows_{i}") for i, p in enumerate(loop.rows)]
    outer = list(loop.outer)
    for tensor in outer:
        body.inside[tensor] = replace(tensor)
    for at in range(loop.period):
        _step(body, at, counter, (start, sign), before)
    filled = [
        _filled(body, p, replace(b, name=f"{b.name}_before"), counter, (start, sign))
        for p, b in zip(loop.rows, buffers, strict=True)
    ]
    more = body.add("ADD", [counter, body.numbers(sign)], body.made("INT32", (1,)))
    after = [more, *(body.of(loop.value(0, p)) for p in values), *(new for _, new in filled)]
    inputs = [counter, *states, *(old for old, _ in filled)]
    through = [body.of(t) for t in outer]
    number = 1 + len(graph.subgraphs)
    cond = _condition(f"loop_{number}", [*inputs, *through], start + sign * loop.count, sign)
    step = rebuild(Graph(f"loop_{number}", (), (), (*inputs, *through), (*after, *through)), body.nodes)
    begin = replace(counter, name=f"{name}/value_0", data=np.array([start], np.int32))
    rows = [_rows_in(b, f"{b.name}_none") for b in buffers]
    ends = [loop.value(loop.count - 1, p) for p in values]
    main = Node(
        "WHILE",
        (begin, *first, *(row.output for row in rows), *outer),
        (
            replace(counter, name=f"{name}/end"),
            *ends,
            *buffers,
            *(replace(t, name=f"{t.name}/after", shape_signature=()) for t in outer),
        ),
        {**schema.default_options("WHILE"), "cond_subgraph_index": number, "body_subgraph_index": number + 1},
    )
    rest = [_joined(loop, node, buffers) for node in graph.nodes[loop.last :]]
    nodes = [*graph.nodes[: loop.first], *rows, main, *rest]
    whole = rebuild(replace(graph, subgraphs=(*graph.subgraphs, cond, step)), nodes)
    known = {t.name for each in walk(graph) for t in each.tensors}
    names = filter(lambda short: short not in known, map("s{}".format, count())) if named else repeat("")
    main_graph, inner = _short(whole, names, known), [_short(each, names) for each in (cond, step)]
    result = replace(main_graph, subgraphs=(*graph.subgraphs, *inner))
    check(result)
    return result


def _short(graph: Graph, names: Iterator[str], known: Collection[str] = ()) -> Graph:
    """The graph with short names, or none, for what a loop adds to it: nobody looks for them, and they take bytes."""
    new = (t for t in graph.tensors if t.data is None and t.name not in known)
    return swap_tensors(graph, {t: replace(t, name=next(names)) for t in new})


def _step(body: _Body, at: int, counter: Tensor, run: tuple[int, int], before: Mapping[Place, Tensor]) -> None:
    loop = body.loop
    node, later = loop.node(0, at), loop.node(1, at)
    inputs = []
    for old, new in zip(node.inputs, later.inputs, strict=True):
        place = next((p for p in before if new is not None and new is loop.value(0, p)), None)
        inputs.append(before[place] if place is not None else None if old is None else body.of(old))
    outputs = tuple(body.of(t) for t in node.outputs)
    if at in loop.picks:
        axis, begin, _ = loop.picks[at]
        index = body.position(counter, 1, begin - run[0])
        rows = [t for t in inputs[:1] if t is not None]
        body.add("GATHER", [*rows, index], outputs[0], axis=axis)
    else:
        body.nodes.append(replace(node, inputs=tuple(inputs), outputs=outputs, index=len(body.nodes)))


def _buffer(loop: Loop, place: Place, name: str) -> Tensor:
    """Room for a value of all steps, one behind the other."""
    value, (reader, _) = loop.value(0, place), loop.rows[place]
    axis = int(reader.options["axis"]) % len(value.shape)
    shape = tuple(n * loop.count if d == axis else n for d, n in enumerate(value.shape))
    return replace(value, name=name, shape=shape, shape_signature=())


def _filled(body: _Body, place: Place, buffer: Tensor, counter: Tensor, run: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The rows before a step and those behind it, which have its value."""
    loop, (start, sign) = body.loop, run
    reader, backwards = loop.rows[place]
    value = loop.value(0, place)
    axis = int(reader.options["axis"]) % len(value.shape)
    step, offset = (-sign, loop.count - 1 + sign * start) if backwards else (sign, -sign * start)
    index = body.position(counter, step, offset)
    unit = body.numbers(*(value.shape[axis] if d == axis else 0 for d in range(len(value.shape))))
    place_of = body.add("MUL", [index, unit], body.made("INT32", (len(value.shape),)))
    new = replace(buffer, name=f"{buffer.name}_filled")
    return buffer, body.add("DYNAMIC_UPDATE_SLICE", [buffer, body.of(value), place_of], new)


def _rows_in(buffer: Tensor, name: str) -> Node:
    """What makes rows that nobody has filled yet."""
    dims = Tensor(f"{name}/shape", "INT32", (len(buffer.shape),), data=np.array(buffer.shape, np.int32))
    value = replace(buffer, name=f"{name}/value", shape=(), data=np.zeros((), buffer.dtype))
    return Node("FILL", (dims, value), (replace(buffer, name=name),), schema.default_options("FILL"))


def _joined(loop: Loop, node: Node, buffers: Sequence[Tensor]) -> Node:
    """A node behind the loop, with rows in the place of values of all steps."""
    inputs = list(node.inputs)
    for buffer, (place, (reader, backwards)) in zip(buffers, loop.rows.items(), strict=True):
        if reader is node:
            row = loop.values(place)[::-1] if backwards else loop.values(place)
            at = inputs.index(row[0])
            inputs[at : at + len(row)] = [buffer]
    return replace(node, inputs=tuple(inputs)) if len(inputs) != len(node.inputs) else node


def _condition(name: str, inputs: Sequence[Tensor], end: int, sign: int) -> Graph:
    own = [replace(t, name=f"{t.name}/seen") for t in inputs]
    limit = Tensor(f"{name}/value", "INT32", (1,), data=np.array([end], np.int32))
    goes = Tensor(f"{name}/goes_on", "BOOL", (1,))
    op = "LESS" if sign > 0 else "GREATER"
    node = Node(op, (own[0], limit), (goes,), schema.default_options(op))
    return rebuild(Graph(f"{name}/condition", (), (), tuple(own), (goes,)), [node])
