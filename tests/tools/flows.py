"""Models of several subgraphs, built by hand and at random, and what they mean: a plain walk over numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinfer.runtime.graph import DTYPES, Array, Graph, Node, Quant, Tensor, walk
from twinfer.runtime.registry import operators

_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Sub:
    """One subgraph while it is built; operators come in the order of execution."""

    def __init__(self, name: str = "sub") -> None:
        self.name = name
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.inputs: list[Tensor] = []

    def tensor(self, shape: Sequence[int] = (1,), type: str = "FLOAT32", **more: Any) -> Tensor:
        self.tensors.append(Tensor(f"{self.name}_{len(self.tensors)}", type, tuple(shape), **more))
        return self.tensors[-1]

    def input(self, shape: Sequence[int] = (1,), type: str = "FLOAT32", **more: Any) -> Tensor:
        self.inputs.append(self.tensor(shape, type, **more))
        return self.inputs[-1]

    def constant(self, value: Any, type: str = "FLOAT32", quant: Quant | None = None) -> Tensor:
        data = np.array(value, DTYPES[type])
        return self.tensor(data.shape, type, quant=quant, data=data)

    def run(self, op: str, inputs: Sequence[Any], outputs: Sequence[Tensor] = (), **options: Any) -> Node:
        """A node over tensors that are there; an array among the inputs becomes a constant."""
        given = [self.constant(x, _NAMES[x.dtype]) if isinstance(x, np.ndarray) else x for x in inputs]
        self.nodes.append(Node(op, tuple(given), tuple(outputs), options, index=len(self.nodes)))
        return self.nodes[-1]

    def op(self, op: str, inputs: Sequence[Any], type: str = "", shape: Any = None, **options: Any) -> Tensor:
        """A node with one output: of input 0's type and shape, unless they are given."""
        first = inputs[0] if inputs else None
        like = first if isinstance(first, Tensor) else None
        at = tuple(shape) if shape is not None else (like.shape if like else np.shape(first))
        kind = type or (like.type if like else "FLOAT32")
        return self.run(op, inputs, [self.tensor(at, kind)], **options).output

    def add(self, a: Any, b: Any) -> Tensor:
        return self.op("ADD", [a, b], fused_activation_function="NONE")

    def mul(self, a: Any, b: Any) -> Tensor:
        return self.op("MUL", [a, b], fused_activation_function="NONE")

    def less(self, a: Any, b: Any) -> Tensor:
        return self.op("LESS", [a, b], "BOOL")

    def handle(self, name: str = "v") -> Tensor:
        return self.op("VAR_HANDLE", [], "RESOURCE", (), container="", shared_name=name)

    def read(self, handle: Tensor, shape: Sequence[int] = (1,), type: str = "FLOAT32", **more: Any) -> Tensor:
        return self.run("READ_VARIABLE", [handle], [self.tensor(shape, type, **more)]).output

    def assign(self, handle: Tensor, value: Any) -> None:
        self.run("ASSIGN_VARIABLE", [handle, value])

    def branch(self, condition: Tensor, then: int, orelse: int, inputs: Sequence[Any], like: Sequence[Tensor]) -> Any:
        """An IF with outputs as ``like``."""
        outputs = [self.tensor(t.shape, t.type, quant=t.quant) for t in like]
        options = {"then_subgraph_index": then, "else_subgraph_index": orelse}
        self.run("IF", [condition, *inputs], outputs, **options)
        return outputs

    def loop(self, test: int, body: int, inputs: Sequence[Tensor]) -> Any:
        outputs = [self.tensor(t.shape, t.type, quant=t.quant) for t in inputs]
        self.run("WHILE", inputs, outputs, cond_subgraph_index=test, body_subgraph_index=body)
        return outputs

    def once(self, index: int) -> None:
        self.run("CALL_ONCE", [], init_subgraph_index=index)

    def graph(self, outputs: Sequence[Tensor], *subgraphs: Graph, **more: Any) -> Graph:
        return Graph(
            self.name, tuple(self.tensors), tuple(self.nodes), tuple(self.inputs), tuple(outputs),
            subgraphs=subgraphs, **more,
        )  # fmt: skip


@dataclass
class Meaning:
    """Runs a model as its file says, without a plan; ``variables`` last from run to run."""

    graph: Graph
    variables: dict[str, Array] = field(default_factory=dict)
    initialised: set[int] = field(default_factory=set)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        return self._call(0, list(inputs))

    def _call(self, index: int, arguments: list[Any]) -> list[Any]:
        graph = list(walk(self.graph))[index]
        values: dict[Tensor, Any] = {t: t.data for t in graph.tensors if t.data is not None}
        values |= dict(zip(graph.inputs, arguments, strict=True))
        for node in graph.nodes:
            given = [None if t is None else values[t] for t in node.inputs]
            values |= dict(zip(node.outputs, self._node(node, given), strict=True))
        return [values[t] for t in graph.outputs]

    def _node(self, node: Node, given: list[Any]) -> list[Any]:
        rule = getattr(self, f"_{node.op.lower()}", None)
        if rule is not None:
            return list(rule(node, *given))
        results = operators()[node.op].reference(node, given)
        return [np.asarray(value, t.dtype).reshape(t.shape) for value, t in zip(results, node.outputs, strict=True)]

    def _if(self, node: Node, condition: Array, *given: Any) -> list[Any]:
        key = "then_subgraph_index" if condition.item() else "else_subgraph_index"
        return self._call(node.options[key], list(given))

    def _while(self, node: Node, *given: Any) -> list[Any]:
        values = list(given)
        while self._call(node.options["cond_subgraph_index"], values)[0].item():
            values = self._call(node.options["body_subgraph_index"], values)
        return values

    def _call_once(self, node: Node) -> list[Any]:
        index = node.options["init_subgraph_index"]
        if index not in self.initialised:
            self.initialised.add(index)
            self._call(index, [])
        return []

    def _stablehlo_composite(self, node: Node, *given: Any) -> list[Any]:
        return self._call(node.options["decomposition_subgraph_index"], list(given))

    def _var_handle(self, node: Node) -> list[Any]:
        return [node.options["shared_name"]]

    def _read_variable(self, node: Node, name: str) -> list[Any]:
        like = node.outputs[0]
        return [self.variables.get(name, np.zeros(like.shape, like.dtype))]

    def _assign_variable(self, node: Node, name: str, value: Array) -> list[Any]:
        self.variables[name] = value
        return []


class Random:
    """A random model over INT32[2] values: arithmetic, branches, loops, composites, variables, shared subgraphs."""

    def __init__(self, seed: int, litert: bool = False, overwrites: bool = False) -> None:
        """``litert``: only what LiteRT does rightly: variables are written before they are read, nothing is swapped.

        ``overwrites``: nodes also write the inputs of the subgraphs that they are in.
        """
        self.rng, self.litert, self.overwrites = np.random.default_rng(seed), litert, overwrites
        self.graphs: list[Graph] = []
        self.shared: list[int] = []  # subgraphs of two inputs and one output, to be called from several places

    def model(self) -> Graph:
        main = Sub("main")
        values = [main.input((2,), "INT32") for _ in range(3)]
        if self.litert or self._chance(2):
            main.once(self._add(self._init()))
        self._block(main, values, 0, 6)
        return main.graph(self._some(values, 4), *self.graphs)

    def inputs(self) -> list[Array]:
        return [self.rng.integers(-9, 10, 2, dtype=np.int32) for _ in range(3)]

    def _init(self) -> Graph:
        sub = Sub("init")
        for name in "uv":
            value = [[3, 3], [7, -7]][self.rng.integers(2)]
            sub.assign(sub.handle(name), sub.constant(value, "INT32"))
        return sub.graph([])

    def _add(self, graph: Graph) -> int:
        self.graphs.append(graph)
        return len(self.graphs)

    def _chance(self, of: int) -> bool:
        return bool(self.rng.integers(of) == 0)

    def _one(self, values: Sequence[Tensor]) -> Tensor:
        return values[self.rng.integers(len(values))]

    def _some(self, values: Sequence[Tensor], count: int) -> list[Tensor]:
        return [self._one(values) for _ in range(count)]

    def _block(self, sub: Sub, values: list[Tensor], depth: int, count: int) -> None:
        """Adds statements to a subgraph, and their results to ``values``."""
        rules = [self._arithmetic] * 3 + [self._read, self._assign, self._constant]
        rules += [self._branch, self._loop, self._composite] if depth < 3 else []
        rules += [self._overwrite] * 4 if self.overwrites else []
        for _ in range(self.rng.integers(1, count + 1)):
            rules[self.rng.integers(len(rules))](sub, values, depth)

    def _arithmetic(self, sub: Sub, values: list[Tensor], depth: int) -> None:
        op = ["ADD", "SUB", "MAXIMUM", "MINIMUM"][self.rng.integers(4)]
        options = {"fused_activation_function": "NONE"} if op in ("ADD", "SUB") else {}
        values.append(sub.op(op, self._some(values, 2), **options))

    def _constant(self, sub: Sub, values: list[Tensor], depth: int) -> None:
        values.append(sub.constant(self.rng.integers(-4, 5, 2), "INT32"))

    def _read(self, sub: Sub, values: list[Tensor], depth: int) -> None:
        values.append(sub.read(sub.handle("uv"[self.rng.integers(2)]), (2,), "INT32"))

    def _assign(self, sub: Sub, values: list[Tensor], depth: int) -> None:
        sub.assign(sub.handle("uv"[self.rng.integers(2)]), self._one(values))

    def _overwrite(self, sub: Sub, values: list[Tensor], depth: int) -> None:
        """A node writes an input: what has read it before, or was handed it through, keeps the old value."""
        written = {tensor for node in sub.nodes for tensor in node.outputs}
        inputs = [tensor for tensor in sub.inputs if tensor.shape == (2,) and tensor not in written]
        if not inputs:
            return
        target = self._one(inputs)
        old, others = [target], [tensor for tensor in values if tensor is not target]
        if depth < 3:
            [self._branch, self._loop, self._composite][self.rng.integers(3)](sub, old, depth)
        sub.run("MAXIMUM", self._some(others, 2), [target])
        values += old[1:]

    def _callee(self, depth: int) -> int:
        """A subgraph of two inputs and one output, perhaps one that is called elsewhere, too."""
        if self.shared and self._chance(2):
            return int(self.shared[self.rng.integers(len(self.shared))])
        sub = Sub(f"callee{len(self.graphs)}")
        values = [sub.input((2,), "INT32") for _ in range(2)]
        self._block(sub, values, depth + 1, 4)
        self.shared.append(self._add(sub.graph([self._one(values)])))
        return self.shared[-1]

    def _branch(self, sub: Sub, values: list[Tensor], depth: int) -> None:
        index = sub.constant([0], "INT32")
        first = [sub.op("GATHER", [value, index], shape=(1,), axis=0) for value in self._some(values, 2)]
        sides = self._callee(depth), self._callee(depth)
        values += sub.branch(sub.less(*first), *sides, self._some(values, 2), values[:1])

    def _composite(self, sub: Sub, values: list[Tensor], depth: int) -> None:
        options = {"name": "c", "composite_attributes": b"", "decomposition_subgraph_index": self._callee(depth)}
        values.append(sub.op("STABLEHLO_COMPOSITE", self._some(values, 2), **options))

    def _loop(self, sub: Sub, values: list[Tensor], depth: int) -> None:
        """A few iterations over a counter and three more values, which may be swapped, repeated or handed through."""
        test, body = Sub(f"test{len(self.graphs)}"), Sub(f"body{len(self.graphs)}")
        for each in (test, body):
            each.input((1,), "INT32")
            for _ in range(3):
                each.input((2,), "INT32")
        limit = int(self.rng.integers(4))
        tested = self._add(test.graph([test.less(test.inputs[0], np.array([limit], np.int32))]))
        inner = list(body.inputs[1:])
        self._block(body, inner, depth + 1, 4)
        given = inner[3:] or inner if self.litert else inner
        results = [body.inputs[i + 1] if self._chance(4) else self._one(given) for i in range(3)]
        count = body.add(body.inputs[0], np.array([1], np.int32))
        repeated = self._add(body.graph([count, *results]))
        values += sub.loop(tested, repeated, [sub.constant([0], "INT32"), *self._some(values, 3)])[1:]
