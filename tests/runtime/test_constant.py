"""Constants of a plan: which are one, and what they are called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.runtime.constant import Constant, Pool, index, requantize, weights
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import tensor

X, Y = tensor((3,), name="x"), tensor((3,), name="y")
W = Tensor("w", "INT8", (3,), data=np.array([1, 2, 3], np.int8))


def pool_of(*nodes: Node) -> Pool:
    return Pool(Graph("g", (X, W, Y), nodes, (X,), (Y,)))


def test_a_packed_constant_is_never_the_tensor_s_own() -> None:
    """Not even where it is packed of no constants, at the place that is the tensor's number."""
    node = Node("ABS", (X,), (Y,))
    pool = pool_of(node)
    own = pool.value(W)
    assert W.data is not None
    copies = [pool.packed(weights(W.data.copy()), node, place) for place in range(3)]
    assert own not in copies
    assert pool.value(W) is own


def test_equal_content_of_the_same_origin_is_one_constant() -> None:
    nodes = [Node("MUL", (X, W), (Y,), index=i) for i in range(2)]
    pool = pool_of(*nodes)
    first, again = (pool.packed(index(np.arange(4)), node, 1) for node in nodes)
    assert first is again
    others = (pool.packed(index(np.arange(5)), nodes[0], 1), pool.packed(index(np.arange(4)), nodes[0], 2))
    assert first not in others


def test_a_copy_of_a_constant_is_named_after_it() -> None:
    node = Node("MUL", (X, W), (Y,), index=7)

    def named(constant: Constant, use: object) -> str:
        return pool_of(node).packed(constant, node, use).name

    array = np.zeros(8, np.int8)
    assert named(weights(array), 1) == 'weights of "w"'
    assert named(weights(array), 0) == "weights of operator 7 MUL", "x is no constant"
    assert named(weights(array), 2) == "weights of operator 7 MUL", "there is no input 2"
    assert named(weights(array), "codes 1") == "weights of operator 7 MUL"
    assert named(requantize(array), 1) == "shifts of operator 7 MUL", "it is made of scales"
    assert named(replace(weights(array), name="a name"), 1) == "a name"
    assert pool_of(node).value(W).name == '"w"'
