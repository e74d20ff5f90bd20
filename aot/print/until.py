"""The order of a chain as C of its own: for every layer a function that computes its rows up to a wanted one.

It asks the layers before for the rows that it needs, so that all happens in the order of ``run/chain.h``. Each is
inlined into the one that asks, which leaves nested loops over constants: fewer bytes than a table and what runs it,
and fewer instructions.
"""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.runtime.plan.by_rows.rows import goals
from twinfer.runtime.program import Chain


def _asked(chain: Chain) -> list[list[tuple[int, int]]]:
    """For every link the sources that are links, too: the number of the source and that of the link."""
    number = {link.out: i for i, link in enumerate(chain.links)}
    return [
        [(k, number[tensor]) for k, (_, tensor, _) in enumerate(link.sources) if tensor in number]
        for link in chain.links
    ]


def straight(chain: Chain) -> bool:
    """Whether the chain waits for nothing, and only one asks for the rows of each layer."""
    asked = [i for own in _asked(chain) for _, i in own] + goals(chain)
    return chain.feed is None and sorted(asked) == list(range(len(chain.links)))


def functions(chain: Chain, symbol: str) -> Iterator[str]:
    """The functions of the layers of a straight chain, whose tw_chain is ``symbol``."""
    for i, own in enumerate(_asked(chain)):
        asks = [f"        {symbol}_{j}(at, arena, tw_chain_wanted(&{symbol}, at, {i}, {k}));" for k, j in own]
        lines = [
            f"TW_INLINE void {symbol}_{i}(tw_rows_progress *at, unsigned char *arena, int32_t wanted) {{",
            f"    while (at[{i}].done < wanted) {{",
            *asks,
            f"        tw_chain_part(&{symbol}, at, {i}, arena);",
            "    }",
            "}",
        ]
        yield "\n".join(lines)


def run(chain: Chain, symbol: str, arena: str) -> list[str]:
    """The statements that run a straight chain, whose rows lie in ``arena``."""
    (goal,) = goals(chain)
    return [f"tw_chain_begin(&{symbol}, at);", f"{symbol}_{goal}(at, {arena}, {chain.links[goal].height});"]
