"""Small subgraphs to put together rightly or wrongly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from flows import Sub

from twinfer.runtime.graph import Array, Graph


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def function(name: str, *ops: str, shape: tuple[int, ...] = (1,), type: str = "FLOAT32") -> Graph:
    """A subgraph of one input that applies operators to it in turn; without any it hands the input through."""
    sub = Sub(name)
    x = sub.input(shape, type)
    for op in ops:
        x = sub.op(op, [x, x] if op == "ADD" else [x], **({"fused_activation_function": "NONE"} if op == "ADD" else {}))
    return sub.graph([x])


def below(limit: float) -> Graph:
    sub = Sub("below")
    return sub.graph([sub.less(sub.input(), floats(limit))])


def branching(then: Graph, orelse: Graph) -> Graph:
    """IF over two subgraphs with one input and one output; the condition and the argument come from outside."""
    main = Sub("main")
    c, x = main.input(type="BOOL"), main.input()
    return main.graph(main.branch(c, 1, 2, [x], [x]), then, orelse)


def chain(depth: int) -> Graph:
    """IF in IF in IF: so many calls in one another, the innermost adds; the other sides hand through."""
    graphs = []
    for i in range(depth + 2):
        sub = Sub(f"s{i}")
        c, x = sub.input(type="BOOL"), sub.input((2,))
        if i < depth:
            graphs.append(sub.graph(sub.branch(c, i + 1, depth + 1, [c, x], [x])))
        else:
            graphs.append(sub.graph([sub.add(x, x) if i == depth else x]))
    return replace(graphs[0], subgraphs=tuple(graphs[1:]))
