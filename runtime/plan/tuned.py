"""What ``twinfer tune`` has found to be fastest on this computer: which variant and blocking a node's shape gets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from twinfer.runtime import cache
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Node
from twinfer.runtime.program import Call
from twinfer.runtime.registry import attempts, operator
from twinfer.runtime.target import NATIVE, PLAIN, Target
from twinfer.runtime.tools import cpu
from twinfer.runtime.variant import Variant


class Setting(NamedTuple):
    """A variant by its name and, where its kernel works block by block, their size; 0 for the usual one."""

    variant: str = PLAIN.variant
    block: int = 0


#: What a node is to its kernel (``key``) -> how it is lowered.
Settings = Mapping[str, Setting]


def key(node: Node) -> str:
    """A hash of all that a kernel's time depends on: operator, types, shapes and options, not values."""
    tensors = [None if t is None else (t.type, t.shape, t.data is None) for t in (*node.inputs, *node.outputs)]
    told = (node.op, tensors, sorted(node.options.items(), key=lambda item: item[0]))
    return sha256(repr(told).encode()).hexdigest()[:24]


def alternatives(node: Node, target: Target) -> Iterator[tuple[Setting, Call]]:
    """Every way to lower a node on a target, the usual one first, plain C last. ``infer`` must have agreed."""
    for variant, call in attempts(node, target):
        if isinstance(call, Call):
            yield Setting(variant.name), call
            yield from _blocked(variant, call, node, target)
    yield Setting(), operator(node).lower(node, target)


def _blocked(variant: Variant, usual: Call, node: Node, target: Target) -> Iterator[tuple[Setting, Call]]:
    """The calls with other blocks, each once."""
    seen = [usual.params]
    for size, call in variant.blocks(node, target) if variant.blocks else ():
        if call.params not in seen:
            seen.append(call.params)
            yield Setting(variant.name, size), call


def file(target: Target) -> Path:
    """Where the settings for this CPU, these features and this version of twinfer are kept."""
    told = (version("twinfer"), cpu(), sorted(target.features))
    return cache.folder() / f"tuned-{sha256(repr(told).encode()).hexdigest()[:24]}.json"


def load(target: Target) -> Settings:
    """The settings that were kept for this computer; InvalidArgumentError for another target than it."""
    if target.name != NATIVE:
        raise InvalidArgumentError(f"tuned plans are for this computer (native), not for {target.name}")
    try:
        if (content := cache.load(file(target))) is None:
            return {}  # nothing was tuned here, or the file is damaged: the usual choice is right
        return {name: Setting(**setting) for name, setting in json.loads(content.tobytes()).items()}
    except (ToolError, ValueError, TypeError, AttributeError):  # ToolError: there is no folder of the user's own
        return {}


def save(target: Target, settings: Settings) -> Path:
    """Add settings to those that are kept for this computer; returns where."""
    every, place = {**load(target), **settings}, file(target)
    text = json.dumps({name: setting._asdict() for name, setting in sorted(every.items())}, indent=1)

    def make(work: Path) -> Path:
        (work / "settings").write_text(text, encoding="utf-8")
        return work / "settings"

    cache.store(place, make)
    return place
