"""Spells out operators that torch.onnx lacks, or exports wrong, by others: before the export, and in torch itself.

The program is run once more while torch records it, with the functions of ``rules`` in place of these operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map

from twinfer.converter.table import modules_of
from twinfer.converter.torch import rules


@dataclass(frozen=True)
class Rule:
    """A function that takes an operator's place and its arguments; ``when`` says of which arguments (default: any).

    ``knows``: places of arguments whose values it is given as ``known``, arrays; None for what depends on the input.
    """

    function: Callable[..., Any]
    when: Callable[..., bool] = lambda *_, **__: True
    knows: tuple[int, ...] = ()


@cache
def table() -> Mapping[Any, Rule]:
    """The rules of all modules of ``rules``, each of which ends with ``RULES``, by torch's operators. Operators that
    this version of torch has not are left out."""
    named = {name: rule for module in modules_of(rules) for name, rule in module.RULES.items()}
    found: dict[Any, Rule] = {}
    for name, rule in named.items():
        operator, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, operator, None)
        if packet is not None and (overload or "default") in packet.overloads():
            found[getattr(packet, overload or "default")] = rule if isinstance(rule, Rule) else Rule(rule)
    return found


def rewritten(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without operators that have a rule; itself if there are none, or if its inputs' shapes are open."""
    shapes = [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and _is_tensor(node)]
    is_open = any(not isinstance(extent, int) for shape in shapes for extent in shape)
    if is_open or program.example_inputs is None or not any(map(_has_rule, program.graph.nodes)):
        return program
    module: Any = program.module(check_guards=False)
    return torch.export.export(_Rewritten(module), tuple(tree_leaves(program.example_inputs)), strict=False)


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _has_rule(node: Node) -> bool:
    args, kwargs = tree_map(
        lambda each: each.meta.get("val") if isinstance(each, Node) else each, (node.args, node.kwargs)
    )
    return node.target in table() and table()[node.target].when(*args, **kwargs)


class _Rewritten(torch.nn.Module):  # type: ignore[misc]
    """A module that runs another one by the rules. What has a rule but depends on weights alone is computed here."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__()
        self.module = module
        self.computed: dict[str, Any] = {}
        self.known: dict[str, list[Any]] = {}
        values: dict[Node, Any] = {}
        for node in module.graph.nodes:
            value = _value(node, module, values)  # of every node in order: nets are too deep for recursion
            if (rule := table().get(node.target)) is None:
                continue
            if value is not None:
                self.computed[node.name] = tree_map(self._keep, value)
            self.known[node.name] = [
                tree_map(lambda each: _array(each, module, values), node.args[i]) for i in rule.knows
            ]

    def _keep(self, value: Any) -> Any:
        """The name of a buffer for a tensor; other values themselves."""
        if not isinstance(value, torch.Tensor):
            return value
        name = f"computed_{len(self._buffers)}"
        self.register_buffer(name, value.detach())
        return _Buffer(name)

    def forward(self, *inputs: Any) -> Any:
        results = tree_leaves(_Run(self).run(*inputs))
        return tuple(value for value in results if value is not None)


@dataclass(frozen=True)
class _Buffer:
    name: str


class _Run(Interpreter):  # type: ignore[misc]
    def __init__(self, rewritten: _Rewritten) -> None:
        super().__init__(rewritten.module)
        self.rewritten = rewritten

    def run_node(self, n: Node) -> Any:
        if n.name in self.rewritten.computed:
            kept = self.rewritten.computed[n.name]
            return tree_map(lambda v: getattr(self.rewritten, v.name) if isinstance(v, _Buffer) else v, kept)
        rule = table().get(n.target)
        if rule is not None:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if rule.when(*args, **kwargs):
                known = {"known": self.rewritten.known[n.name]} if rule.knows else {}
                return rule.function(*args, **kwargs, **known)
        return super().run_node(n)


def _value(node: Node, module: GraphModule, values: dict[Node, Any]) -> Any:
    """What a node gives if that depends on weights alone, else None."""
    if node not in values:
        values[node] = None
        if node.op == "get_attr":
            values[node] = attrgetter(str(node.target))(module)
        elif node.op == "call_function" and not _has_effects(node.target):
            given = {each: _value(each, module, values) for each in node.all_input_nodes}
            if all(value is not None for value in given.values()):
                args, kwargs = tree_map(
                    lambda each: given[each] if isinstance(each, Node) else each, (node.args, node.kwargs)
                )
                values[node] = node.target(*args, **kwargs)
    return values[node]


def _array(argument: Any, module: GraphModule, values: dict[Node, Any]) -> Any:
    if not isinstance(argument, Node):
        return argument
    value = _value(argument, module, values)
    return value if value is None else value.detach().numpy()


def _has_effects(target: Any) -> bool:
    """Whether an operator changes its arguments or draws random numbers."""
    if target is torch.ops.aten.detach_.default:
        return False
    schema, tags = getattr(target, "_schema", None), getattr(target, "tags", ())
    return (schema is not None and bool(schema.is_mutable)) or torch.Tag.nondeterministic_seeded in tags
