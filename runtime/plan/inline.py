"""Graph -> Flow: puts subgraphs in the place of the nodes that call them, and tensors in the place of variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from twinfer.runtime.control import ARITY, MOST_CALLS
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node, Tensor, walk
from twinfer.runtime.op import need, unsupported
from twinfer.runtime.plan.flow import Branch, Copy, Flow, Key, Part, Repeat, Resource
from twinfer.runtime.registry import keeps_state
from twinfer.runtime.shapes import guarded

#: The most nodes that a model may have when every subgraph stands in its callers' places; a subgraph's inputs and
#: outputs count as nodes.
MOST_NODES = 1 << 16


def inline(graph: Graph) -> Flow:
    """What a run of ``graph`` does, in order.

    A tensor of a subgraph that is called several times is another one every time, unless it is a constant or variable.
    Raises ModelError for a node that does not fit the subgraph that it calls, for a subgraph that calls itself, and for
    a variable of two shapes; UnsupportedOperatorError for control flow that has no plan.
    """
    return _Inliner(graph).flow()


class _Inliner:
    """One walk through a model.

    ``start`` is what runs once, ``inits`` says which subgraph there writes a tensor last; ``calls`` are the subgraphs
    that are being walked; ``touched`` tells whether a node has used a variable yet.
    """

    def __init__(self, graph: Graph) -> None:
        self.graphs = list(walk(graph))
        self.written = [_written(each) for each in self.graphs]
        self.variables: dict[Key, Variable] = {}
        self.start: list[Part] = []
        self.inits: dict[Tensor, int] = {}
        self.begun = set[int]()
        self.states: dict[Node, Node] = {}
        self.overwritten = set(self.written[0].intersection(graph.inputs))
        self.calls = [0]
        self.count = 0
        self.touched = False

    def flow(self) -> Flow:
        main, names = self.graphs[0], Names(fresh=False)
        parts = self.block(main, names)
        writer = {tensor: node for node in main.nodes for tensor in node.outputs}
        for tensor in dict.fromkeys(main.outputs):
            if names.value(tensor) is not tensor:
                parts.append(Copy(writer[tensor], names.tensor(writer[tensor], tensor), tensor))
        used = {key: v.tensor for key, v in self.variables.items() if v.tensor is not None}
        resources = {key: Resource(tensor, self.inits.get(tensor)) for key, tensor in used.items()}
        return Flow(main, tuple(self.start), tuple(parts), self.states, resources)

    def block(self, graph: Graph, names: Names) -> list[Part]:
        """The parts that the nodes of a subgraph become."""
        self.count += len(graph.nodes) + len(graph.inputs) + len(graph.outputs)
        if self.count > MOST_NODES:
            raise UnsupportedOperatorError(
                f"graph {self.graphs[0].name!r}: with its subgraphs in their callers' places it has more than "
                f"{MOST_NODES} operators; call subgraphs less often"
            )
        return [part for node in graph.nodes for part in guarded(node, partial(self.parts, node, names))]

    def parts(self, node: Node, names: Names) -> list[Part]:
        """What becomes of a node."""
        rule = _RULES.get(node.op)
        if rule is not None:
            counts, wanted = (len(node.inputs), len(node.outputs)), ARITY.get(node.op)
            need(wanted in (None, counts), node, f"it has {counts[0]} inputs and {counts[1]} outputs, not {wanted}")
            return rule(self, node, names)
        now = names.node(node)
        if keeps_state(node):
            self.states[now] = node
        return [now]

    def call(
        self, node: Node, key: str, arguments: Sequence[Value], results: Sequence[Tensor] = ()
    ) -> tuple[list[Part], list[Value]]:
        """The parts of the subgraph that option ``key`` of a node names, and its outputs.

        Where an output is computed by a node of the subgraph, it is written to the tensor of ``results`` itself.
        """
        graph, computed = self.callee(node, key), self.written[int(node.options[key])]
        need(len(graph.inputs) == len(arguments), node, f"{key} takes {len(graph.inputs)} inputs, not {len(arguments)}")
        need(len({*graph.inputs}) == len(arguments), node, f"{key} has an input twice")
        names, given = Names(), list[Part]()
        for tensor, value in zip(graph.inputs, arguments, strict=True):
            names.values[tensor] = value
            itself = stands_for(node, value, tensor) and not self.changes(value)
            if isinstance(value, Tensor) and (not itself or tensor in computed):  # the callee has a copy of its own
                own = names.values[tensor] = replace(tensor, data=None, variable=False)
                given += copies(node, [value], [own])
                self.overwritten.update([own] if tensor in computed else [])
        for tensor, result in zip(graph.outputs, results, strict=False):
            plain = tensor in computed and not tensor.variable and tensor.type != "RESOURCE"
            if plain and tensor not in graph.inputs and stands_for(node, tensor, result):
                names.values[tensor] = result
        self.calls.append(int(node.options[key]))
        parts = self.block(graph, names)
        self.calls.pop()
        return [*given, *parts], [names.value(tensor) for tensor in graph.outputs]

    def changes(self, value: Value) -> bool:
        """Whether a value may change while another tensor that is made from it is still read."""
        return isinstance(value, Tensor) and (value.variable or value in self.overwritten)

    def callee(self, node: Node, key: str) -> Graph:
        index = int(node.options[key])
        need(0 <= index < len(self.graphs), node, f"{key} {index} does not exist, there are {len(self.graphs)}")
        need(index not in self.calls, node, f"subgraph {index} calls itself, directly or through others")
        if len(self.calls) > MOST_CALLS:
            raise unsupported(node, f"calls are nested more than {MOST_CALLS} deep")
        return self.graphs[index]

    def branch(self, node: Node, names: Names) -> list[Part]:
        condition = names.tensor(node, node.input(0))
        check_condition(node, condition)
        arguments = [names.value(node.input(i)) for i in range(1, len(node.inputs))]
        wanted = [names.tensor(node, tensor) for tensor in node.outputs]
        results = list[Value](wanted)
        then, values = self.call(node, "then_subgraph_index", arguments, wanted)
        orelse, others = self.call(node, "else_subgraph_index", arguments, wanted)
        for side in (values, others):
            need(len(side) == len(results), node, f"a branch has {len(side)} outputs, not {len(results)}")
        chosen = None if condition.data is None else bool(condition.data.reshape(-1)[0])
        for i, tensor in enumerate(node.outputs):
            pair = [values[i], others[i]] if chosen is None else [values[i] if chosen else others[i]] * 2
            if isinstance(pair[0], Variable) or isinstance(pair[1], Variable):
                if pair[0] is not pair[1]:
                    raise unsupported(node, f"its branches give different variables for {tensor}")
                names.values[tensor] = values[i] = others[i] = pair[0]
                results[i] = pair[0]
        then, orelse = [*then, *copies(node, values, results)], [*orelse, *copies(node, others, results)]
        if chosen is not None:
            return then if chosen else orelse
        return [Branch(node, condition, tuple(then), tuple(orelse))] if then or orelse else []

    def loop(self, node: Node, names: Names) -> list[Part]:
        """A loop over variables: the node's outputs, except those that the body hands through unchanged."""
        body, written = self.callee(node, "body_subgraph_index"), self.written[int(node.options["body_subgraph_index"])]
        sides = [node.inputs, node.outputs, body.inputs, body.outputs]
        need(len({*map(len, sides)}) == 1, node, "it and its body have different numbers of inputs and outputs")
        values = [names.value(node.input(i)) for i in range(len(node.inputs))]
        for i, tensor in enumerate(node.outputs):
            same = body.inputs[i] is body.outputs[i] and body.inputs[i] not in written and not self.changes(values[i])
            if stands_for(node, values[i], tensor) and (same or isinstance(values[i], Variable)):
                names.values[tensor] = values[i]
        state = [names.value(tensor) for tensor in node.outputs]
        parts = copies(node, values, state)
        test, conditions = self.call(node, "cond_subgraph_index", state)
        need(len(conditions) == 1, node, f"its condition has {len(conditions)} outputs, not 1")
        condition = check_condition(node, conditions[0])
        if condition.data is not None:
            need(not condition.data.any(), node, "its condition is always true: it never ends")
            return [*parts, *test]
        inner, results = self.call(node, "body_subgraph_index", state)
        inner += copied_back(node, results, state)
        return [*parts, Repeat(node, condition, tuple(test), tuple(inner))] if test or inner else parts

    def once(self, node: Node, names: Names) -> list[Part]:
        if self.touched or names.fresh:
            raise unsupported(node, "it must come before every use of a variable, in the main subgraph: move it there")
        index = int(node.options["init_subgraph_index"])
        if index in self.begun:
            return []
        self.begun.add(index)
        parts, _ = self.call(node, "init_subgraph_index", [])
        if any(isinstance(part, Branch | Repeat) for part in parts):
            raise unsupported(node, "its subgraph must not branch or loop: initialise variables with constants")
        self.start += parts
        self.inits.update({part.to: index for part in parts if isinstance(part, Copy)})
        self.touched = False
        return []

    def composite(self, node: Node, names: Names) -> list[Part]:
        arguments = [names.value(node.input(i)) for i in range(len(node.inputs))]
        parts, outputs = self.call(node, "decomposition_subgraph_index", arguments)
        need(len(outputs) == len(node.outputs), node, f"its decomposition has {len(outputs)} outputs")
        for tensor, value in zip(node.outputs, outputs, strict=True):
            if stands_for(node, value, tensor) and not self.changes(value):
                names.values[tensor] = value
            else:
                parts += copies(node, [value], [names.tensor(node, tensor)])
        return parts

    def handle(self, node: Node, names: Names) -> list[Part]:
        container, name = (str(node.options[key]) for key in ("container", "shared_name"))
        names.values[node.output] = self.variables.setdefault((container, name), Variable(name or container))
        return []

    def read(self, node: Node, names: Names) -> list[Part]:
        self.touched, to = True, names.tensor(node, node.output)
        return [Copy(node, names.variable(node).holding(node, to), to)]

    def assign(self, node: Node, names: Names) -> list[Part]:
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


def _written(graph: Graph) -> frozenset[Tensor]:
    """The tensors that nodes of a subgraph write."""
    return frozenset(tensor for node in graph.nodes for tensor in node.outputs)


# -- what the tensors of a subgraph are where it stands in its caller's place ------------------------------------------


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


# -- copies of values between a caller and its subgraph, and what both must agree on -----------------------------------


def check_same(node: Node, a: Tensor, b: Tensor) -> None:
    """ModelError unless a value has the type of the tensor that it becomes; UnsupportedOperatorError for its shape."""
    need(a.type == b.type, node, f"{a} and {b} differ in type")
    if a.shape != b.shape:
        raise unsupported(node, f"{a} and {b} differ in shape: shapes of subgraphs must be static")


def stands_for(node: Node, value: Value, tensor: Tensor) -> bool:
    """Whether readers of ``tensor`` may read ``value`` itself, not a copy: the same numbers, or a handle.

    Raises as ``check_same`` does. Values are handed on byte by byte: with other scales they mean other numbers.
    """
    if isinstance(value, Variable):
        need(tensor.type == "RESOURCE", node, f"{tensor} gets the handle of variable {value.name!r}")
        return True
    check_same(node, value, tensor)
    return value.quant == tensor.quant


def check_condition(node: Node, value: Value) -> Tensor:
    """The value as a condition; ModelError if it is none."""
    fits = isinstance(value, Tensor) and value.type == "BOOL" and value.size == 1
    need(fits, node, f"its condition {value} must be one BOOL")
    return value  # type: ignore[return-value]  # need() has seen to it


def copies(node: Node, values: Sequence[Value], to: Sequence[Value]) -> list[Part]:
    """Copies of values to tensors, where they are not there already."""
    parts: list[Part] = []
    for value, tensor in zip(values, to, strict=True):
        if value is tensor:
            continue
        if isinstance(value, Variable) or isinstance(tensor, Variable):
            name = next(each.name for each in (value, tensor) if isinstance(each, Variable))
            raise unsupported(node, f"its body changes which variable {name!r} is")
        check_same(node, value, tensor)
        parts.append(Copy(node, value, tensor))
    return parts


def copied_back(node: Node, values: Sequence[Value], state: Sequence[Value]) -> list[Part]:
    """Copies of the body's results to the loop's variables, as if all at once."""
    changed = [(value, to) for value, to in zip(values, state, strict=True) if value is not to]
    read = {to for _, to in changed}
    sources = [replace(v) if isinstance(v, Tensor) and v in read else v for v, _ in changed]
    return [*copies(node, [v for v, _ in changed], sources), *copies(node, sources, [to for _, to in changed])]
