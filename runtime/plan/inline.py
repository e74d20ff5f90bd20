"""Graph -> Flow: puts subgraphs in the place of the nodes that call them, and tensors in the place of variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node, Tensor, walk
from twinfer.runtime.op import need, unsupported
from twinfer.runtime.plan.flow import Branch, Copy, Flow, Part, Repeat

#: The most nodes that a model may have when every subgraph stands in its callers' places.
MOST_NODES = 1 << 16


def inlined(graph: Graph) -> Flow:
    """What a run of ``graph`` does, in order.

    A tensor of a subgraph that is called several times is another one every time, unless it is a constant or variable.
    Raises ModelError for a node that does not fit the subgraph that it calls, for a subgraph that calls itself, and for
    a variable of two shapes; UnsupportedOperatorError for control flow that has no plan.
    """
    return _Inliner(graph).flow()


@dataclass(eq=False)
class _Variable:
    """A variable, which several handles may name; its tensor is known from the first use on."""

    name: str
    tensor: Tensor | None = None

    def holding(self, node: Node, value: Tensor) -> Tensor:
        """The tensor of the state that holds values such as ``value``."""
        if self.tensor is None:
            self.tensor = Tensor(self.name, value.type, value.shape, value.quant, variable=True)
        same = (self.tensor.type, self.tensor.shape) == (value.type, value.shape)
        need(same, node, f"{value} does not fit variable {self.name!r}, which is {self.tensor}")
        return self.tensor


@dataclass
class _Names:
    """What the tensors of one call of a subgraph are in the plan; without ``fresh``, as in the main one, themselves."""

    fresh: bool = True
    values: dict[Tensor, Tensor | _Variable] = field(default_factory=dict)

    def value(self, tensor: Tensor) -> Tensor | _Variable:
        if tensor not in self.values and self.fresh and tensor.data is None and not tensor.variable:
            self.values[tensor] = replace(tensor)
        return self.values.get(tensor, tensor)

    def tensor(self, node: Node, tensor: Tensor) -> Tensor:
        value = self.value(tensor)
        if isinstance(value, _Variable):
            raise ModelError(f"{node}: {tensor} is the handle of variable {value.name!r}, a value is needed")
        return value

    def variable(self, node: Node) -> _Variable:
        value = self.value(node.input(0))
        if not isinstance(value, _Variable):
            raise ModelError(f"{node}: {node.input(0)} is no handle of a variable: VAR_HANDLE makes one")
        return value

    def node(self, node: Node) -> Node:
        inputs = tuple(None if t is None else self.tensor(node, t) for t in node.inputs)
        outputs = tuple(self.tensor(node, t) for t in node.outputs)
        same = inputs == node.inputs and outputs == node.outputs
        return node if same else replace(node, inputs=inputs, outputs=outputs)


class _Inliner:
    """One walk through a model.

    ``start`` is what runs once; ``calls`` are the subgraphs that are being walked; ``touched`` tells whether a node has
    used a variable yet.
    """

    def __init__(self, graph: Graph) -> None:
        self.graphs = list(walk(graph))
        self.variables: dict[tuple[str, str], _Variable] = {}
        self.start: list[Part] = []
        self.calls = [0]
        self.count = 0
        self.touched = False

    def flow(self) -> Flow:
        main, names = self.graphs[0], _Names(fresh=False)
        parts = self.block(main, names)
        writer = {tensor: node for node in main.nodes for tensor in node.outputs}
        for tensor in dict.fromkeys(main.outputs):
            if names.value(tensor) is not tensor:
                parts.append(Copy(writer[tensor], names.tensor(writer[tensor], tensor), tensor))
        return Flow(tuple(self.start), tuple(parts))

    def block(self, graph: Graph, names: _Names) -> list[Part]:
        """The parts that the nodes of a subgraph become."""
        self.count += len(graph.nodes)
        if self.count > MOST_NODES:
            raise UnsupportedOperatorError(
                f"graph {self.graphs[0].name!r}: with its subgraphs in their callers' places it has more than "
                f"{MOST_NODES} operators; call subgraphs less often"
            )
        parts: list[Part] = []
        for node in graph.nodes:
            rule = _RULES.get(node.op)
            parts += [names.node(node)] if rule is None else rule(self, node, names)
        return parts

    def call(
        self, node: Node, key: str, arguments: Sequence[Tensor | _Variable], results: Sequence[Tensor] = ()
    ) -> tuple[list[Part], list[Tensor]]:
        """The parts of the subgraph that option ``key`` of a node names, and its outputs.

        Where an output is computed by a node of the subgraph, it is written to the tensor of ``results`` itself.
        """
        graph = self._callee(node, key)
        need(len(graph.inputs) == len(arguments), node, f"{key} takes {len(graph.inputs)} inputs, not {len(arguments)}")
        names = _Names(values=dict(zip(graph.inputs, arguments, strict=True)))
        for tensor, value in names.values.items():
            if isinstance(value, Tensor):
                _check_same(node, value, tensor)
        computed = {tensor for each in graph.nodes for tensor in each.outputs if not tensor.variable}
        for tensor, result in zip(graph.outputs, results, strict=False):
            if graph.outputs.count(tensor) == 1 and tensor in computed:
                _check_same(node, tensor, result)
                names.values[tensor] = result
        self.calls.append(int(node.options[key]))
        parts = self.block(graph, names)
        self.calls.pop()
        return parts, [names.tensor(node, tensor) for tensor in graph.outputs]

    def _callee(self, node: Node, key: str) -> Graph:
        index = int(node.options[key])
        need(0 <= index < len(self.graphs), node, f"{key} {index} does not exist, there are {len(self.graphs)}")
        need(index not in self.calls, node, f"subgraph {index} calls itself, directly or through others")
        return self.graphs[index]

    def branch(self, node: Node, names: _Names) -> list[Part]:
        condition = names.tensor(node, node.input(0))
        _check_condition(node, condition)
        arguments = [names.value(node.input(i)) for i in range(1, len(node.inputs))]
        results = [names.tensor(node, tensor) for tensor in node.outputs]
        sides = []
        for key in ("then_subgraph_index", "else_subgraph_index"):
            parts, outputs = self.call(node, key, arguments, results)
            sides.append((*parts, *_copies(node, outputs, results)))
        if condition.data is not None:
            return list(sides[0] if condition.data.reshape(-1)[0] else sides[1])
        return [Branch(node, condition, *sides)]

    def loop(self, node: Node, names: _Names) -> list[Part]:
        """A loop over variables: the node's outputs, except those that the body hands through unchanged."""
        body = self._callee(node, "body_subgraph_index")
        sides = [node.inputs, node.outputs, body.inputs, body.outputs]
        need(len({*map(len, sides)}) == 1, node, "it and its body have different numbers of inputs and outputs")
        values = [names.value(node.input(i)) for i in range(len(node.inputs))]
        fixed = [a is b for a, b in zip(body.inputs, body.outputs, strict=True)]
        for i, tensor in enumerate(node.outputs):
            if fixed[i]:
                names.values[tensor] = values[i]
        state = [names.value(tensor) for tensor in node.outputs]
        parts = _copies(node, *_changing(node, values, state, fixed))
        test, conditions = self.call(node, "cond_subgraph_index", state)
        need(len(conditions) == 1, node, f"its condition has {len(conditions)} outputs, not 1")
        _check_condition(node, conditions[0])
        if conditions[0].data is not None:
            need(not conditions[0].data.any(), node, "its condition is always true: it never ends")
            return parts
        inner, results = self.call(node, "body_subgraph_index", state)
        back = _copied_back(node, *_changing(node, results, state, fixed))
        return [*parts, Repeat(node, conditions[0], tuple(test), (*inner, *back))]

    def once(self, node: Node, names: _Names) -> list[Part]:
        if self.touched or names.fresh:
            raise unsupported(node, "it must come before every use of a variable, in the main subgraph: move it there")
        parts, _ = self.call(node, "init_subgraph_index", [])
        if any(isinstance(part, Branch | Repeat) for part in parts):
            raise unsupported(node, "its subgraph must not branch or loop: initialise variables with constants")
        self.start += parts
        self.touched = False
        return []

    def composite(self, node: Node, names: _Names) -> list[Part]:
        arguments = [names.value(node.input(i)) for i in range(len(node.inputs))]
        parts, outputs = self.call(node, "decomposition_subgraph_index", arguments)
        need(len(outputs) == len(node.outputs), node, f"its decomposition has {len(outputs)} outputs")
        for tensor, value in zip(node.outputs, outputs, strict=True):
            _check_same(node, value, tensor)
            names.values[tensor] = value
        return parts

    def handle(self, node: Node, names: _Names) -> list[Part]:
        container, name = (str(node.options[key]) for key in ("container", "shared_name"))
        names.values[node.output] = self.variables.setdefault((container, name), _Variable(name or container))
        return []

    def read(self, node: Node, names: _Names) -> list[Part]:
        self.touched, to = True, names.tensor(node, node.output)
        return [Copy(node, names.variable(node).holding(node, to), to)]

    def assign(self, node: Node, names: _Names) -> list[Part]:
        self.touched, value = True, names.tensor(node, node.input(1))
        return [Copy(node, value, names.variable(node).holding(node, value))]


#: What becomes of a node, by its operator.
_RULES = {
    "IF": _Inliner.branch,
    "WHILE": _Inliner.loop,
    "CALL_ONCE": _Inliner.once,
    "STABLEHLO_COMPOSITE": _Inliner.composite,
    "VAR_HANDLE": _Inliner.handle,
    "READ_VARIABLE": _Inliner.read,
    "ASSIGN_VARIABLE": _Inliner.assign,
}


def _check_same(node: Node, a: Tensor, b: Tensor) -> None:
    """ModelError unless a value has the type of the tensor that it becomes; UnsupportedOperatorError for its shape."""
    need(a.type == b.type, node, f"{a} and {b} differ in type")
    if a.shape != b.shape:
        raise unsupported(node, f"{a} and {b} differ in shape: shapes of subgraphs must be static")


def _check_condition(node: Node, tensor: Tensor) -> None:
    need(tensor.type == "BOOL" and tensor.size == 1, node, f"its condition {tensor} must be one BOOL")


def _copies(node: Node, values: Sequence[Tensor], to: Sequence[Tensor]) -> list[Part]:
    """Copies of values to tensors, where they are not there already."""
    need(len(values) == len(to), node, f"its subgraph has {len(values)} outputs, not {len(to)}")
    for value, tensor in zip(values, to, strict=True):
        _check_same(node, value, tensor)
    return [Copy(node, value, tensor) for value, tensor in zip(values, to, strict=True) if value is not tensor]


def _changing(
    node: Node, values: Sequence[Tensor | _Variable], state: Sequence[Tensor | _Variable], fixed: Sequence[bool]
) -> tuple[list[Tensor], list[Tensor]]:
    """Values of the variables of a loop that its body changes, and their tensors."""
    pairs = [(value, tensor) for value, tensor, same in zip(values, state, fixed, strict=True) if not same]
    sides: tuple[list[Tensor], list[Tensor]] = ([], [])
    for pair in pairs:
        for side, value in zip(sides, pair, strict=True):
            if isinstance(value, _Variable):
                raise unsupported(node, f"its body changes which variable {value.name!r} is")
            side.append(value)
    return sides


def _copied_back(node: Node, values: Sequence[Tensor], state: Sequence[Tensor]) -> list[Part]:
    """Copies of the body's results to the loop's variables, as if all at once."""
    pairs = zip(values, state, strict=True)
    aside = [replace(value) if value is not to and value in state else value for value, to in pairs]
    return [*_copies(node, values, aside), *_copies(node, aside, state)]
