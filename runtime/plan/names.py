"""What the tensors of a subgraph are where it stands in its caller's place: other tensors, or handles of variables."""

from __future__ import annotations

from dataclasses import replace

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import need


class Variable:
    """A variable, which several handles may name; its tensor is known from the first use on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensor: Tensor | None = None

    def holding(self, node: Node, value: Tensor) -> Tensor:
        """The tensor of the state that holds values such as ``value``."""
        if self.tensor is None:
            self.tensor = Tensor(self.name, value.type, value.shape, value.quant, variable=True)
        same = (self.tensor.type, self.tensor.shape) == (value.type, value.shape)
        need(same, node, f"{value} does not fit variable {self.name!r}, which is {self.tensor}")
        return self.tensor


#: What a tensor of a subgraph is: a tensor of the plan, or the handle of a variable.
Value = Tensor | Variable


class Names:
    """What the tensors of one call of a subgraph are in the plan; without ``fresh``, as in the main one, themselves."""

    def __init__(self, fresh: bool = True) -> None:
        self.fresh = fresh
        self.values: dict[Tensor, Value] = {}

    def value(self, tensor: Tensor) -> Value:
        if tensor not in self.values and self.fresh and tensor.data is None and not tensor.variable:
            self.values[tensor] = replace(tensor)
        return self.values.get(tensor, tensor)

    def tensor(self, node: Node, tensor: Tensor) -> Tensor:
        value = self.value(tensor)
        if isinstance(value, Variable):
            raise ModelError(f"{node}: {tensor} is the handle of variable {value.name!r}, a value is needed")
        return value

    def variable(self, node: Node) -> Variable:
        value = self.value(node.input(0))
        if not isinstance(value, Variable):
            raise ModelError(f"{node}: {node.input(0)} is no handle of a variable: VAR_HANDLE makes one")
        return value

    def node(self, node: Node) -> Node:
        inputs = tuple(None if t is None else self.tensor(node, t) for t in node.inputs)
        outputs = tuple(self.tensor(node, t) for t in node.outputs)
        same = inputs == node.inputs and outputs == node.outputs
        return node if same else replace(node, inputs=inputs, outputs=outputs)
