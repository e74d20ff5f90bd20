"""Models of other frameworks in ``inspect`` and ``ops``: what ``convert`` would make of them, or what keeps it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twinfer.runtime.graph import Graph


@dataclass(frozen=True)
class Preview:
    """``operators``: the source's, with their counts. ``graph``: what they become; None if that cannot be.
    ``problems``: by operator and reason the nodes that cannot be converted. ``fault``: what else is wrong."""

    operators: Mapping[str, int]
    graph: Graph | None = None
    problems: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    fault: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """All that keeps it from being converted."""
        each = (f"{op} ({len(nodes)}x): {reason}" for (op, reason), nodes in self.problems.items())
        return (*each, *filter(None, [self.fault]))


def add_shapes(command: argparse.ArgumentParser) -> None:
    about = "of .onnx, .keras and .pt2 files: the shape of an input whose dimensions the model leaves open"
    command.add_argument("--shape", action="append", default=[], metavar="NAME=D,D,…", help=about)
    about = "of these files: make an input a constant: numbers, or a .npy file"
    command.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE", help=about)


def is_foreign(model: str) -> bool:
    """Whether a model is a file that ``convert`` reads and nothing else does."""
    import os

    from twinfer.converter import TO_CONVERT

    return model.lower().endswith(TO_CONVERT) and os.path.exists(model)


def need_no_shapes(arguments: argparse.Namespace) -> None:
    """InvalidArgumentError for shapes and constants of a model that is there as it is."""
    from twinfer.runtime.errors import InvalidArgumentError

    if arguments.shape or arguments.constant:
        raise InvalidArgumentError(
            "--shape and --constant are for .onnx, .keras and .pt2 files here: convert takes them"
        )


def preview(arguments: argparse.Namespace) -> Preview:
    """What ``convert`` would make of a file; nothing is written. Errors of files that cannot be read are raised."""
    from twinfer.command_line.arrays import constants_of
    from twinfer.command_line.options import shapes_of
    from twinfer.command_line.terminal import note
    from twinfer.converter.loops import roll
    from twinfer.converter.open_shapes import OpenShapes, options
    from twinfer.converter.optimise import optimise
    from twinfer.converter.passes import PIPELINE
    from twinfer.converter.source import open_source, read_source
    from twinfer.runtime.errors import UnsupportedOperatorError

    source = open_source(arguments.model)
    shapes, constants = shapes_of(arguments.shape), constants_of(arguments.constant)
    operators = dict(_operators(source))
    try:
        try:
            imported = read_source(source, shapes, constants)
        except OpenShapes as error:
            if error.found is None:
                raise
            note(f"shapes that are open were assumed: {options(error.found)}")
            imported = read_source(source, {**shapes, **error.found}, constants)
        return Preview(operators, roll(optimise(imported, PIPELINE)))
    except UnsupportedOperatorError as error:
        return Preview(operators, None, error.by_reason, "" if error.by_reason else str(error))


def preview_tables(name: str, found: Preview) -> Iterator[RenderableType]:
    """The source's operators, and which of them cannot be converted, with the reasons."""
    from rich.text import Text

    from twinfer.bench.measure.report import table

    lost = {op for op, _ in found.problems}
    shown = table(f"Operators of {name}", "<operator", "uses", "<", gap=1)
    for op, count in found.operators.items():
        bad = op in lost
        shown.add_row(op, str(count), "not all can be converted" if bad else "", style="red" if bad else "")
    yield shown
    for (op, reason), nodes in found.problems.items():
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        yield Text(f"missing: {op} ({len(nodes)}x): {reason}; {', '.join(nodes[:3])}{more}", style="red")
    if found.fault:
        yield Text(f"missing: {found.fault}", style="red")


def _operators(source: Any) -> list[tuple[str, int]]:
    """The operators, layers or functions of a source, by number of uses."""
    from twinfer.converter import OnnxFile

    if isinstance(source, OnnxFile):
        names = _nodes(source.model.graph)
    elif str(source).lower().endswith(".keras"):
        from twinfer.converter.keras.read import loaded

        names = (type(layer).__name__ for layer in loaded(source)._flatten_layers(include_self=False))
    elif str(source).lower().endswith(".pt2"):
        from twinfer.converter.torch.load import load

        names = (str(node.target) for node in load(source).graph.nodes if node.op == "call_function")
    else:
        return []
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))


def _nodes(graph: Any) -> Iterator[str]:
    """The operators of an ONNX graph and of the graphs that its nodes run."""
    from twinfer.converter.onnx.bodies import inner_graphs

    for node in graph.node:
        yield f"{node.domain}:{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        for inner in inner_graphs(node):
            yield from _nodes(inner)
