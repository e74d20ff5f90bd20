"""Which tensors share one quantisation, and which it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from twinfer.converter.affine import Range, activation
from twinfer.converter.quant_rules import Fixed, Rule
from twinfer.runtime.graph import Graph, Node, Quant, Tensor, consumers

#: A tensor in an integer type: mixed graphs may need both.
Key = tuple[Tensor, str]


class Groups:
    """Tensors joined by the same-scale rules (union-find), each group with a fixed quantisation or a range.

    ``types`` gives the activations' type of the nodes that are quantised; ``ranges`` the range of a tensor.
    """

    def __init__(
        self,
        graph: Graph,
        types: Mapping[Node, str],
        rules: Mapping[str, Rule],
        ranges: Callable[[Tensor], Range],
    ) -> None:
        self._readers = consumers(graph)
        self._outputs = set(graph.outputs)
        self._ranges = ranges
        self._parent: dict[Key, Key] = {}
        self._members: dict[Key, list[Key]] = {}
        self._fixed: dict[Key, Fixed] = {}
        self._quants: dict[Key, Quant] = {}
        for node, type in types.items():
            self._add(node, rules[node.op], type)

    def quant(self, tensor: Tensor, type: str) -> Quant:
        """The quantisation of the tensor where it is held in that type."""
        root = self._root((tensor, type))
        if root not in self._quants:
            self._quants[root] = self._made(root)
        return self._quants[root]

    def _made(self, root: Key) -> Quant:
        if root in self._fixed:
            return Quant.per_tensor(*self._fixed[root])
        found = [self._ranges(tensor) for tensor, _ in self._members[root]]
        return activation((min(low for low, _ in found), max(high for _, high in found)), root[1])

    def _add(self, node: Node, rule: Rule, type: str) -> None:
        fixed = rule.fixed8 if type == "INT8" else rule.fixed16
        if fixed is not None:
            self._fixed[self._root((node.output, type))] = fixed
        if not rule.same:
            return
        values = list(dict.fromkeys(node.input(i) for i in rule.values(node)))
        joined = self._joined(node, values, type)
        for tensor in (*joined, *node.outputs[1:]):
            self._join((node.output, type), (tensor, type))

    def _joined(self, node: Node, values: list[Tensor], type: str) -> Iterable[Tensor]:
        """The inputs that take the output's scale; the others are requantised on their way in.

        One alone always does. Of several, those that nobody else reads do, unless their scale is fixed and is not the
        scale of them all.
        """
        fixed = [self._fixed.get(self._root((t, type))) for t in values]
        if len(values) == 1 or (fixed[0] is not None and all(f == fixed[0] for f in fixed)):
            return values
        return [t for t, f in zip(values, fixed, strict=True) if f is None and self._only_reader(t, node)]

    def _only_reader(self, tensor: Tensor, node: Node) -> bool:
        return tensor.data is not None or (tensor not in self._outputs and self._readers.get(tensor) == [node])

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


def data_range(tensor: Tensor) -> Range:
    """Least and greatest value of a float constant."""
    data = np.asarray(tensor.data)
    return (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)
