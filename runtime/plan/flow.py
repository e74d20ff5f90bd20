"""A model in the order of its run: subgraphs stand in their callers' places, variables are copied from and to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from twinfer.runtime.graph import Graph, Node, Tensor


class Copy(NamedTuple):
    """``to`` gets the value of ``source``, because ``node`` says so: a variable is read, or a subgraph returns."""

    node: Node
    source: Tensor
    to: Tensor


class Branch(NamedTuple):
    """An IF: ``then`` runs if ``condition`` is true, else ``orelse``."""

    node: Node
    condition: Tensor
    then: Block
    orelse: Block


class Repeat(NamedTuple):
    """A WHILE: ``test`` computes ``condition``; while that is true, ``body`` runs and then ``test`` again."""

    node: Node
    condition: Tensor
    test: Block
    body: Block


Part = Node | Copy | Branch | Repeat
Block = tuple[Part, ...]


#: What names a variable in every subgraph of a model: its container, and its shared name.
Key = tuple[str, str]


class Resource(NamedTuple):
    """The tensor of a variable, and the subgraph that a CALL_ONCE runs to give it its first value."""

    tensor: Tensor
    init: int | None = None


class Flow(NamedTuple):
    """All of a model, which is ``graph``: what runs before the first run, and what every run does.

    ``states`` gives for every node whose operator keeps a state the node of the file, which has one state wherever its
    subgraph is called. ``resources`` are the variables that are used, by name.
    """

    graph: Graph
    start: Block
    main: Block
    states: Mapping[Node, Node] = MappingProxyType({})
    resources: Mapping[Key, Resource] = MappingProxyType({})


def nodes_of(block: Block) -> Iterator[Node]:
    """The nodes that operators compute, in order."""
    for part in block:
        match part:
            case Node():
                yield part
            case Branch():
                yield from nodes_of((*part.then, *part.orelse))
            case Repeat():
                yield from nodes_of((*part.test, *part.body))
