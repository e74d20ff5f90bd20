"""Finds which tensors share one quantisation, and chooses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from twinfer.converter.facts import Fixed
from twinfer.converter.quantize.affine import EMPTY, LIMITS, Range, activation, data_range
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node, Quant, Tensor, consumers

#: A tensor in an integer type: mixed graphs may need both.
Key = tuple[Tensor, str]


def rounding(node: Node) -> tuple[Tensor, Tensor] | None:
    """The floats and the integers of a QUANTIZE or DEQUANTIZE that the float graph has, because training or another
    quantiser has chosen the scale: it is kept. None of other nodes."""
    if node.op not in ("QUANTIZE", "DEQUANTIZE"):
        return None
    value, stored = (node.input(0), node.output)[:: 1 if node.op == "QUANTIZE" else -1]
    plain = value.type == "FLOAT32" and value.data is None and stored.type in LIMITS and stored.data is None
    return (value, stored) if plain and stored.quant is not None and not stored.quant.per_channel else None


class Groups:
    """Tensors joined by the same-scale rules (union-find). A group has a range or a fixed quantisation, which is the
    operator's, or which the graph has already.

    ``types`` gives the activations' type of the nodes that are quantised; ``ranges`` the range of a tensor
    that is held in a type; ``tied`` further tensors that share a scale.
    """

    def __init__(
        self,
        graph: Graph,
        types: Mapping[Node, str],
        ranges: Callable[[Tensor, str], Range],
        tied: Iterable[list[Tensor]] = (),
    ) -> None:
        self._readers = consumers(graph)
        self._outputs = set(graph.outputs)
        self._ranges, self._types = ranges, types
        self._producer = {t: node for node in types for t in node.outputs}
        self._parent: dict[Key, Key] = {}
        self._members: dict[Key, list[Key]] = {}
        self._fixed: dict[Key, Fixed] = {}
        self._quants: dict[Key, Quant] = {}
        for first, *others in filter(None, tied):
            for type in dict.fromkeys(types.values()):
                for tensor in others:
                    self._join((first, type), (tensor, type))
        for node in graph.nodes:
            if (ends := rounding(node)) is not None:
                value, stored = ends
                self._fixed.setdefault(self._root((value, stored.type)), (stored.scale, stored.zero))
        for node, type in types.items():
            self._add(node, type)

    def quant(self, tensor: Tensor, type: str) -> Quant:
        """The quantisation of the tensor where it is held in that type."""
        root = self._root((tensor, type))
        if root not in self._quants:
            self._quants[root] = self._quantisation(root)
        return self._quants[root]

    def _quantisation(self, root: Key) -> Quant:
        if root in self._fixed:
            return Quant.per_tensor(*self._fixed[root])
        low, high = self._raw(root)
        needed = max(self._needed(tensor, root[1]) for tensor, _ in self._members[root])
        return activation((low, max(high, low + needed) if high > low else EMPTY), root[1])

    def _raw(self, root: Key) -> Range:
        """The range that holds those of all members, and zero."""
        ranges = [self._ranges(tensor, type) for tensor, type in self._members[root]]
        return min(0.0, *(low for low, _ in ranges)), max(0.0, *(high for _, high in ranges))

    def _needed(self, tensor: Tensor, type: str) -> float:
        """The least span that is taken by its readers and, given the spans of the inputs, by its operator's kernel."""
        read = max((row_of(n).scales.span for n in self._readers.get(tensor, ()) if n in self._types), default=0.0)
        node = self._producer.get(tensor)
        if node is None or not row_of(node).scales.least:
            return read
        row = row_of(node)
        spans = [self._raw(self._root((node.input(i), type))) for i in row.scaled(node)]
        widest = max(high - low or EMPTY for low, high in spans)
        if row.parameters is not None:
            widest *= max(map(abs, data_range(node.input(row.parameters.weights))))
        return max(read, row.scales.least * (widest * widest if row.scales.squares else widest))

    def _add(self, node: Node, type: str) -> None:
        row = row_of(node)
        fixed = row.scales.fixed(type)
        if fixed is not None:
            self._fixed[self._root((node.output, type))] = fixed
        if not row.scales.same:
            return
        values = list(dict.fromkeys(node.input(i) for i in row.scaled(node)))
        joined = self._joined(node, values, type)
        for tensor in (*joined, *node.outputs[1:]):
            self._join((node.output, type), (tensor, type))

    def _joined(self, node: Node, values: list[Tensor], type: str) -> Iterable[Tensor]:
        """The inputs that take the output's scale; the others are requantised first.

        A single input always takes it. Of several inputs, those that nobody else reads take it, unless their scale is
        fixed and another input's scale differs.
        """
        fixed = [self._fixed.get(self._root((t, type))) for t in values]
        if len(values) == 1 or (fixed[0] is not None and all(f == fixed[0] for f in fixed)):
            return values
        free = [t for t, f in zip(values, fixed, strict=True) if f is None]
        return [t for t in free if t.data is not None or (t not in self._outputs and self._readers.get(t) == [node])]

    def _root(self, key: Key) -> Key:
        if key not in self._parent:
            self._parent[key] = key
            self._members[key] = [key]
        while self._parent[key] != key:
            key = self._parent[key]
        return key

    def _join(self, a: Key, b: Key) -> None:
        first, second = self._root(a), self._root(b)
        if first == second:
            return
        self._parent[second] = first
        self._members[first] += self._members.pop(second)
        if second in self._fixed:
            self._fixed[first] = self._fixed.pop(second)
