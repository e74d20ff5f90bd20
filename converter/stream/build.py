"""The streaming graph: every node over the rows that are new, and variables that keep the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinfer.converter.facts import Moves
from twinfer.converter.stream.plan import StreamPlan
from twinfer.converter.stream.rules import CONVOLUTIONS, PADS, POOLS, Need, Range, columns, with_rows
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Array, Graph, Node, Tensor

#: Of CONCATENATION.
_JOIN = {"fused_activation_function": "NONE"}


class StreamBuilder:
    """Writes one streaming graph; tensors of the window model become pieces: ranges of their rows."""

    def __init__(self, graph: Graph, plan: StreamPlan) -> None:
        self.graph, self.plan = graph, plan
        self.nodes: list[Node] = []
        self.begin: list[Node] = []
        self.new: dict[Tensor, Tensor] = {}
        self.pieces: dict[tuple[Tensor, Range], Tensor] = {}
        self.joined: dict[Tensor, tuple[Range, Tensor]] = {}

    def build(self) -> Graph:
        """The whole graph; its input has ``hop`` rows."""
        source, need = self.plan.source, self.plan.needs[self.plan.source]
        rows = self.plan.timed.rows - self.plan.timed.hop, self.plan.timed.rows
        first = self.piece_of(source, rows, source.name)
        self.pieces[source, rows] = first
        self.cut(source, need, rows)
        self.keep(source, need)
        for node in self.graph.nodes:
            self.add(node)
        inputs = tuple(first if t is source else t for t in self.graph.inputs)
        outputs = tuple(self.output(t) for t in self.graph.outputs)
        return self.finished(inputs, outputs)

    def cut(self, tensor: Tensor, need: Need, given: Range) -> None:
        """The rows of the input that are read, where they are fewer than those that come."""
        if need.right != given and need.right[0] < need.right[1]:
            self.pieces[tensor, need.right] = self.sliced(self.pieces[tensor, given], tensor, given, need.right)

    def add(self, node: Node) -> None:
        """What a node becomes: itself over all rows, or a copy of it for each range of rows that is new."""
        if node not in self.plan.rules:
            inputs = tuple(None if t is None else self.whole(t) for t in node.inputs)
            outputs = tuple(replace(t) for t in node.outputs)
            self.new.update(zip(node.outputs, outputs, strict=True))
            self.nodes.append(replace(node, inputs=inputs, outputs=outputs))
            return
        need = self.plan.needs[node.outputs[0]]
        for rows in need.fresh:
            self.add_rows(node, rows)
        for tensor in node.outputs:
            self.keep(tensor, self.plan.needs[tensor])

    def add_rows(self, node: Node, rows: Range) -> None:
        """The node over some rows of its outputs."""
        rule, needs = self.plan.rules[node], self.plan.needs
        source = rule.sliding.source(rows)
        if node.op in PADS and (source[1] <= 0 or source[0] >= needs[node.input(0)].timed.rows):
            self.pieces[node.output, rows] = self.filled(node, rows)
            return
        inputs: list[Tensor | None] = []
        for tensor in node.inputs:
            if tensor is not None and tensor in needs:
                inside = max(source[0], 0), min(source[1], needs[tensor].timed.rows)
                inputs.append(self.rows(tensor, inside))
            else:
                inputs.append(None if tensor is None else self.whole(tensor))
        outputs = tuple(self.piece_of(tensor, rows) for tensor in node.outputs)
        for tensor, piece in zip(node.outputs, outputs, strict=True):
            self.pieces[tensor, rows] = piece
        self.nodes.append(self.over_rows(node, source, inputs, outputs))

    def filled(self, node: Node, rows: Range) -> Tensor:
        piece = self.piece_of(node.output, rows)
        value = node.constant(2).reshape(-1)[0] if node.op == "PADV2" else _zero(node.output)
        return replace(piece, data=np.full(piece.shape, value, piece.dtype))

    def over_rows(self, node: Node, source: Range, inputs: list[Tensor | None], outputs: tuple[Tensor, ...]) -> Node:
        """The node with these inputs and outputs, and what in it depends on the number of rows."""
        row = row_of(node)
        if node.op in (*CONVOLUTIONS, *POOLS):
            inputs[0] = self.padded(node, inputs[0], source)
            return replace(node, inputs=tuple(inputs), outputs=outputs, options={**node.options, "padding": "VALID"})
        if node.op in PADS:
            inputs[1] = self.paddings(node, source)
        elif row.moves is Moves.RESHAPES and len(inputs) > 1 and node.op == "RESHAPE":
            inputs[1] = self.constant(np.array(outputs[0].shape, np.int32), f"{outputs[0].name}/shape")
        options = dict(node.options)
        if options.get("new_shape"):
            options["new_shape"] = outputs[0].shape
        return replace(node, inputs=tuple(inputs), outputs=outputs, options=options)

    def beside(self, tensor: Tensor, source: Range) -> tuple[int, int]:
        """Rows of ``source`` before and behind the tensor: padding."""
        return max(-source[0], 0), max(source[1] - self.plan.needs[tensor].timed.rows, 0)

    def padded(self, node: Node, x: Tensor | None, source: Range) -> Tensor | None:
        """The input of a layer with its padding around it, as PAD puts it there: int8 with the zero point."""
        tensor = node.input(0)
        axis = self.plan.needs[tensor].timed.axis
        around = {axis: self.beside(tensor, source), 3 - axis: columns(node, axis)}
        if x is None or not any(map(any, around.values())):
            return x
        table = np.array([around.get(d, (0, 0)) for d in range(4)], np.int32)
        shape = tuple(extent + int(sum(pads)) for extent, pads in zip(x.shape, table, strict=True))
        wide = replace(x, name=f"{x.name}/padded", shape=shape, data=None)
        self.nodes.append(Node("PAD", (x, self.constant(table, f"{wide.name}/paddings")), (wide,)))
        return wide

    def paddings(self, node: Node, source: Range) -> Tensor:
        """The paddings of a PAD over some of its rows."""
        tensor, table = node.input(0), np.array(node.constant(1), np.int32)
        table[self.plan.needs[tensor].timed.axis] = self.beside(tensor, source)
        return self.constant(table, f"{node.output.name}/paddings {source[0]}")

    def rows(self, tensor: Tensor, rows: Range) -> Tensor:
        """Some rows of a tensor: a piece, or a slice of all that there are."""
        if (tensor, rows) in self.pieces:
            return self.pieces[tensor, rows]
        there = next((r for t, r in self.pieces if t is tensor and r[0] <= rows[0] and rows[1] <= r[1]), None)
        held, whole = (there, self.pieces[tensor, there]) if there else self.joined[tensor]
        if held != rows:
            self.pieces[tensor, rows] = self.sliced(whole, tensor, held, rows)
            return self.pieces[tensor, rows]
        return whole

    def whole(self, tensor: Tensor) -> Tensor:
        """All rows of a tensor in time; a tensor without time as it is."""
        if tensor in self.plan.needs:
            return self.rows(tensor, (0, self.plan.needs[tensor].timed.rows))
        return self.new.get(tensor, tensor)

    def output(self, tensor: Tensor) -> Tensor:
        """An output of the graph; of one in time the new rows."""
        if tensor not in self.plan.needs:
            return self.whole(tensor)
        timed = self.plan.needs[tensor].timed
        return self.rows(tensor, (timed.rows - timed.hop, timed.rows))

    def keep(self, tensor: Tensor, need: Need) -> None:
        """Join the new rows of a tensor with those that a variable kept, and keep there what the next step needs."""
        first, end = need.kept
        if first == end:
            return
        hop, axis = need.timed.hop, need.timed.axis
        name = f"{tensor.name}/rows {len(self.joined)}"  # names of tensors need not be unique
        kept = self.piece_of(tensor, need.kept, f"{name} kept")
        handle = Tensor(f"{name}/handle", "RESOURCE", ())
        naming = {"container": "", "shared_name": name}
        self.nodes += [Node("VAR_HANDLE", (), (handle,), naming), Node("READ_VARIABLE", (handle,), (kept,))]
        left = [self.pieces[tensor, rows] for rows in need.fresh if rows == need.left]
        parts = [*left, kept, self.pieces[tensor, need.right]]
        held = (need.left[0] if left else first, need.right[1])
        if left and need.left[1] != first:
            parts, held = parts[1:], (first, need.right[1])
        whole = self.piece_of(tensor, held, f"{name} {held[0]}-{held[1]}")
        self.nodes.append(Node("CONCATENATION", tuple(parts), (whole,), {"axis": axis, **_JOIN}))
        self.joined[tensor] = held, whole
        later = self.sliced(whole, tensor, held, (first + hop, end + hop), f"{name} kept next")
        self.nodes.append(Node("ASSIGN_VARIABLE", (handle, later), ()))
        value = np.full(kept.shape, _zero(tensor), kept.dtype)
        again = replace(handle, name=f"{name}/handle at first")
        constant = replace(kept, data=value, name=f"{name} at first")
        self.begin += [Node("VAR_HANDLE", (), (again,), naming), Node("ASSIGN_VARIABLE", (again, constant), ())]

    def piece_of(self, tensor: Tensor, rows: Range, name: str = "") -> Tensor:
        need = self.plan.needs[tensor]
        shape = with_rows(tensor.shape, need.timed.axis, rows[1] - rows[0])
        return Tensor(name or f"{tensor.name}/rows {rows[0]}-{rows[1]}", tensor.type, shape, tensor.quant)

    def sliced(self, whole: Tensor, tensor: Tensor, held: Range, rows: Range, name: str = "") -> Tensor:
        """Some rows of ``whole``, which has the rows ``held``."""
        piece, axis = self.piece_of(tensor, rows, name), self.plan.needs[tensor].timed.axis
        begin = np.zeros(len(piece.shape), np.int32)
        begin[axis] = rows[0] - held[0]
        places = (begin, np.array(piece.shape, np.int32))
        inputs = (
            whole,
            *(self.constant(a, f"{piece.name}/{w}") for a, w in zip(places, ("begin", "size"), strict=True)),
        )
        self.nodes.append(Node("SLICE", inputs, (piece,)))
        return piece

    @staticmethod
    def constant(value: Array, name: str) -> Tensor:
        return Tensor(name, "INT32", value.shape, data=value)

    def finished(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
        """The graph with all its tensors, and the subgraph that gives variables their first values."""
        begin = tuple(replace(node, index=i) for i, node in enumerate(self.begin))
        first = [Node("CALL_ONCE", (), (), {"init_subgraph_index": 1})] if begin else []
        nodes = tuple(replace(node, index=i) for i, node in enumerate([*first, *self.nodes]))
        return replace(
            self.graph,
            tensors=_tensors(nodes, inputs, outputs),
            nodes=nodes,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            signatures=(),
            subgraphs=(Graph("begin", _tensors(begin), begin, (), ()),) if begin else (),
        )


def _zero(tensor: Tensor) -> int:
    return tensor.zero if tensor.quant is not None and not tensor.quant.per_channel else 0


def _tensors(nodes: Sequence[Node], *more: Sequence[Tensor]) -> tuple[Tensor, ...]:
    used = [t for node in nodes for t in (*node.inputs, *node.outputs) if t is not None]
    return tuple(dict.fromkeys([*(t for side in more for t in side), *used]))
