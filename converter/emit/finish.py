"""The end of reading: tensors called as in the source, a signature, and one error for all that cannot be converted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, repeat
from types import MappingProxyType
from typing import Any

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.sequence import settled
from twinfer.converter.passes._rewrite import rebuild, swap_tensors
from twinfer.converter.table import parameters_of, with_versions
from twinfer.runtime.check import check
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Signature, Tensor, walk

#: The key of the signature that names inputs and outputs.
SIGNATURE = "serving_default"


def with_outputs(g: Emitter, values: Sequence[tuple[str, Tensor]]) -> tuple[Graph, dict[Tensor, str]]:
    """The graph of what was emitted with these outputs by name, and what each is called there.

    An output that is an input, a constant or another output gets a copy.
    """
    taken: dict[Tensor, str] = {}
    for name, tensor in values:
        g.place = name
        if tensor in taken or tensor in g.builder.inputs or tensor.data is not None:
            tensor = g.copy(tensor)
        taken[tensor] = name
    return settled(g.builder.graph(list(taken))), taken


def renamer(graph: Graph, names: Mapping[Tensor, str]) -> Callable[[Tensor], str]:
    """Tensors' names in the source; tensors without one keep theirs. No name is given twice."""
    used = {names[t] for t in graph.tensors if t in names}

    def name(tensor: Tensor) -> str:
        if own := names.get(tensor):
            return own
        free = tensor.name
        while free in used:
            free += "_"
        used.add(free)
        return free

    return name


#: Names that the converter gave to constants of its own: a number, sizes, where a slice begins.
_MADE = re.compile(r"(.*/)?constant[_\d]*(_int8|_int16|_float)?|.+/(shape|value)[_\d]*")


def share_constants(graph: Graph, named: bool = True) -> Graph:
    """The graph, and those in it, in which equal constants that the converter made are one, with short names: names and
    tensors take bytes. No two have the same name in the file: other quantisers refuse that. Not ``named``: they have no
    names, where nobody quantises any more."""
    taken = {t.name for each in walk(graph) for t in each.tensors}
    free = filter(lambda name: name not in taken, map("c{}".format, count()))
    return _shared(graph, free if named else repeat(""))


def leave_out(graph: Graph) -> Graph:
    """The graph without what takes bytes and changes nothing: biases of zeros where an operator may have none, and the
    option of a RESHAPE that says its constant shape again."""
    nodes = []
    for node in graph.nodes:
        parameters = parameters_of(node)
        at = parameters.bias if parameters is not None and parameters.bias_optional else None
        bias = node.optional(at) if at is not None else None
        if at is not None and bias is not None and bias.data is not None and not bias.data.any():
            node = replace(node, inputs=(*node.inputs[:at], None, *node.inputs[at + 1 :]))
        if node.op == "RESHAPE" and node.options.get("new_shape") and node.optional(1) is not None:
            node = replace(node, options=MappingProxyType({**node.options, "new_shape": ()}))
        nodes.append(node)
    graph = replace(graph, subgraphs=tuple(map(leave_out, graph.subgraphs)))
    return graph if nodes == list(graph.nodes) else rebuild(graph, nodes)


def _shared(graph: Graph, names: Iterator[str]) -> Graph:
    known: dict[Any, Tensor] = {}
    swap: dict[Tensor, Tensor] = {}
    public = {
        *graph.inputs,
        *graph.outputs,
        *(t for s in graph.signatures for t in (*s.inputs.values(), *s.outputs.values())),
    }
    for t in graph.tensors:
        if t.data is not None and t not in public and not t.extra and _MADE.fullmatch(t.name):
            quant = t.quant and (t.quant.scale.tobytes(), t.quant.zero_point.tobytes(), t.quant.axis)
            key = (t.type, t.shape, t.shape_signature, quant, t.data.tobytes())
            if key not in known:
                known[key] = replace(t, name=next(names))
            swap[t] = known[key]
    graph = replace(graph, subgraphs=tuple(_shared(each, names) for each in graph.subgraphs))
    if not swap:
        return graph
    graph = swap_tensors(graph, swap)
    return rebuild(graph, graph.nodes)


def change_tensors(graph: Graph, change: Callable[[Tensor], Tensor]) -> Graph:
    changed = swap_tensors(graph, {tensor: change(tensor) for tensor in graph.tensors})
    check(changed)
    return changed


def sign(graph: Graph) -> Graph:
    """The graph with its operators' versions, and a signature that calls inputs and outputs as their tensors."""
    arguments, results = ({t.name: t for t in tensors} for tensors in (graph.inputs, graph.outputs))
    return with_versions(replace(graph, signatures=(Signature(SIGNATURE, arguments, results),)))


#: How many nodes are named per reason; the others are counted.
NAMED = 8


class Problems:
    """Operators and reasons, in the order of the model, each with the nodes that have it."""

    def __init__(self) -> None:
        self.by_reason: dict[tuple[str, str], list[str]] = {}

    def add(self, op: str, reason: str, node: str) -> None:
        self.by_reason.setdefault((op, reason), []).append(node)

    def report(self) -> None:
        """UnsupportedOperatorError with every operator, count, reason and node names; nothing if there is none."""
        if not self.by_reason:
            return
        nodes, lines = sum(map(len, self.by_reason.values())), []
        for (op, reason), names in self.by_reason.items():
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            listed = f"node{'s' * (len(names) > 1)} {', '.join(names[:NAMED])}{more}"
            lines.append(f"{op} ({len(names)}x): {reason}; {listed}")
        error = UnsupportedOperatorError(f"{nodes} nodes cannot be converted:\n  " + "\n  ".join(lines))
        error.by_reason = dict(self.by_reason)
        raise error
