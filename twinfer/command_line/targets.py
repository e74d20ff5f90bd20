"""What the words of --target, --optimize and --against mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinfer.aot.build.targets import Card
    from twinfer.runtime.target import Target


def cards(targets: str) -> list[Any]:
    """The cards of the targets, each once, None for the host; InvalidArgumentError with the names there are."""
    return list(dict.fromkeys(card(name) for name in words(targets) or ["host"]))


def words(text: str) -> list[str]:
    """What stands between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def card(target: str) -> Any:
    """The card of a target that programs run on, None for the host."""
    from twinfer.aot.build.catalogue import find_card
    from twinfer.runtime.errors import InvalidArgumentError
    from twinfer.runtime.target import GENERIC, NATIVE

    if target.lower() == "host":
        return None
    found = None if target.lower() in (GENERIC.name, NATIVE) else find_card(target, also=["host"])[1]
    _tell_of_code(found)
    if found is None:
        raise InvalidArgumentError(f"{target.lower()} is only planned for: compile, inspect, ops and search take it")
    return found


def need_tools(boards: Iterable[Any]) -> None:
    """ToolError if a tool is missing that programs on these boards need; None is this computer."""
    from twinfer.bench.measure import embedded

    for board in boards:
        if board is not None:
            embedded.need_tools(board)


def machine(target: str) -> tuple[Target, Any]:
    """The target to plan for, and the card of a microcontroller; InvalidArgumentError with the names there are."""
    from twinfer.aot.build.catalogue import find_card
    from twinfer.runtime.run.isa import this_computer
    from twinfer.runtime.target import GENERIC, HOST, NATIVE

    plain = {GENERIC.name: lambda: GENERIC, HOST.name: lambda: HOST, NATIVE: this_computer}
    if target.lower() in plain:
        return plain[target.lower()](), None
    found, own = find_card(target, also=[*plain])
    _tell_of_code(own)
    return found, own


def _tell_of_code(card: Card | None) -> None:
    """Say of the code beside a user's card that it runs here, the first time, and whenever it has changed."""
    if card is None or "/" not in card.board:
        return
    from twinfer.command_line.terminal import note
    from twinfer.runtime import cache

    digest = hashlib.sha256(card.board.encode())
    for path in sorted(Path(card.board).glob("**/*.py")):
        digest.update(path.read_bytes())
    kept = cache.folder() / f"{digest.hexdigest()[:40]}.told"
    if cache.load(kept) is not None:
        return
    note(f"{card.name}: the Python in {card.board} runs on this computer (this is said once)")

    def make(work: Path) -> Path:
        (work / "told").touch()
        return work / "told"

    cache.store(kept, make)


def settings(optimize: str) -> tuple[Any, ...]:
    """What to optimize for, each once; InvalidArgumentError with the names there are."""
    from twinfer.runtime.options import Options

    names: list[Any] = [name.strip() for name in optimize.split(",")]
    return tuple(dict.fromkeys(Options(optimize=name).optimize for name in names))


def peers(wanted: str | None, usual: Sequence[str]) -> list[str]:
    """The peers asked for; ToolError if one is not installed."""
    from twinfer.bench.peers.engines import find, installed
    from twinfer.runtime.errors import ToolError

    if wanted is None:
        return [peer for peer in usual if installed(peer)]
    names = [name for name in words(wanted) if name != "none"]
    for name in names:
        if not installed(name):
            package = find(name).package
            raise ToolError(f"{name} is not installed: pip install {package}, or leave it out of --against")
    return names
