"""Random graphs with control flow: IF, WHILE, and variables that are read and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from twinfer.bench.fuzz.grow import Growth
from twinfer.bench.known.model import Rng
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.op import tensor

#: The most turns of a loop.
MOST_TURNS = 4


class Controlled:
    """A graph with subgraphs while it grows; ``ops`` names the operators to choose from."""

    def __init__(self, rng: Rng, refused: Counter[str], ops: Sequence[str]) -> None:
        self.rng, self.refused, self.ops = rng, refused, ops
        self.main = Growth(rng, "main", refused)
        self.main.begin()
        self.subgraphs: list[Graph] = []

    def grow(self) -> Graph:
        """Control flow, operators before and behind."""
        kinds: list[Callable[[], None]] = [self._branch, self._loop, self._variable, self._composite]
        for _ in range(int(self.rng.integers(1, 3))):
            if self.rng.random() < 0.5:
                self.main.add(self._chosen())
            kinds[int(self.rng.integers(len(kinds)))]()
        if self.rng.random() < 0.5:
            self.main.join()
        return self.main.builder.graph(self.main.outputs(), subgraphs=self.subgraphs)

    def _chosen(self) -> str:
        return str(self.rng.choice(np.array(self.ops)))

    def _subgraph(self, graph: Graph) -> int:
        self.subgraphs.append(replace(graph, name=f"sub{len(self.subgraphs) + 1}"))
        return len(self.subgraphs)

    def _closed(self) -> Growth:
        return Growth(self.rng, "sub", self.refused, closed=True)

    def _noted(self, inner: Growth) -> None:
        self.main.oracles |= inner.oracles
        if inner.tolerance is None:
            self.main.tolerance = None

    def _function(self, like: Tensor) -> int:
        """A subgraph of one to three operators from a tensor to one like it."""
        inner = self._closed()
        x = inner.enter(like)
        for _ in range(int(self.rng.integers(1, 4))):
            if self.rng.random() < 0.7:
                inner.add(self._chosen())
            else:
                inner.join()
        y = inner.adapted(inner.fitting(like), like)
        self._noted(inner)
        return self._subgraph(inner.builder.graph([inner.op("MAXIMUM", [x, y], like, like.shape)]))

    def _branch(self) -> None:
        """IF over two functions; the condition comes from outside or is computed."""
        x, b = self.main.pick(), self.main.builder
        sides = {"then_subgraph_index": self._function(x), "else_subgraph_index": self._function(x)}
        condition = b.input(f"x{len(b.inputs)}", "BOOL", (1,))
        out = Tensor(f"t{len(b.tensors)}", x.type, x.shape, x.quant)
        self.main.pool += b.node("IF", [condition, x], [out], sides)

    def _composite(self) -> None:
        """STABLEHLO_COMPOSITE over a function."""
        x, b = self.main.pick(), self.main.builder
        options = {"name": "fuzz", "decomposition_subgraph_index": self._function(x)}
        out = Tensor(f"t{len(b.tensors)}", x.type, x.shape, x.quant)
        self.main.pool += b.node("STABLEHLO_COMPOSITE", [x], [out], options)

    def _loop(self) -> None:
        """WHILE with a counter, over a function that is applied in every turn."""
        x, b = self.main.pick(), self.main.builder
        counter = tensor((1,), "INT32", name="i")
        test = self._closed()
        i, _ = test.enter(counter), test.enter(x)
        limit = np.array([int(self.rng.integers(MOST_TURNS))], np.int32)
        less = test.builder.op("LESS", [i, limit], shape=(1,), type="BOOL")
        body = self._body(counter, x)
        options = {"cond_subgraph_index": self._subgraph(test.builder.graph([less])), "body_subgraph_index": body}
        start = b.input(f"x{len(b.inputs)}", "INT32", (1,)) if self.rng.random() < 0.5 else None
        if start is not None:
            self.main.given[start] = np.array([int(self.rng.integers(-2, MOST_TURNS))], np.int32)
        outs = [replace(counter, name=f"t{len(b.tensors)}"), replace(x, name=f"t{len(b.tensors)}x", data=None)]
        given = np.zeros(1, np.int32) if start is None else start
        self.main.pool.append(b.node("WHILE", [given, x], outs, options)[1])

    def _body(self, counter: Tensor, x: Tensor) -> int:
        body = self._closed()
        i, value = body.enter(counter), body.enter(x)
        body.pool.remove(i)
        for _ in range(int(self.rng.integers(1, 3))):
            if self.rng.random() < 0.7:
                body.add(self._chosen())
            else:
                body.join()
        last = body.adapted(body.fitting(x), x)
        results = [body.op("ADD", [i, np.ones(1, np.int32)], counter, (1,))]
        results.append(body.op("MAXIMUM", [last, value], x, x.shape))
        self._noted(body)
        return self._subgraph(body.builder.graph(results))

    def _variable(self) -> None:
        """A variable that is read, changed and written; its first value comes from CALL_ONCE."""
        x, b = self.main.pick(), self.main.builder
        name = {"container": "", "shared_name": f"v{len(b.tensors)}"}
        handle = Tensor("handle", "RESOURCE", ())
        if not any(node.op in ("READ_VARIABLE", "ASSIGN_VARIABLE") for node in b.nodes):
            once = self._closed()
            first = np.zeros(x.shape, x.dtype) + self.rng.integers(0, 9)
            (inner,) = once.builder.node("VAR_HANDLE", [], [replace(handle)], name)
            start = once.builder.add(replace(x, name="first", data=first.astype(x.dtype)))
            once.builder.node("ASSIGN_VARIABLE", [inner, start], [])
            b.node("CALL_ONCE", [], [], {"init_subgraph_index": self._subgraph(once.builder.graph([]))})
        (outer,) = b.node("VAR_HANDLE", [], [replace(handle, name=f"h{len(b.tensors)}")], name)
        old = b.node("READ_VARIABLE", [outer], [replace(x, name=f"t{len(b.tensors)}", data=None)])[0]
        changed = self.main.op("MAXIMUM" if self.rng.random() < 0.5 else "ADD", [x, old], x, x.shape)
        self.main.pool += [changed, old]
        b.node("ASSIGN_VARIABLE", [outer, changed], [])
