"""The order of a chain as C of its own: for every layer a function that computes its rows up to a wanted one.

It asks the layers before for the rows that it needs, so that all happens in the order of ``run/chain.h``. Each is
inlined into the one that asks, which leaves nested loops over constants: fewer bytes than a table and what runs it,
and fewer instructions.
"""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.runtime.plan.by_rows.chain_table import ChainTable
from twinfer.runtime.plan.by_rows.rows import goals
from twinfer.runtime.program import Chain


def straight(chain: Chain) -> bool:
    """Whether the chain waits for nothing, and only one asks for the rows of each layer."""
    outs = {link.out: i for i, link in enumerate(chain.links)}
    asked = [outs[tensor] for link in chain.links for _, tensor, _ in link.sources if tensor in outs] + goals(chain)
    return chain.feed is None and sorted(asked) == list(range(len(chain.links)))


def functions(table: ChainTable, symbol: str) -> Iterator[str]:
    """The functions of the layers of a straight chain, whose tw_chain is ``symbol``."""
    blocks = "unsigned char *arena, const unsigned char *input"
    for i, entry in enumerate(table.entries):
        if entry.link is None:
            continue
        asked = [j for j in entry.values["source"] if j >= len(table.given)]
        lines = [
            f"TW_INLINE void {symbol}_{i}(tw_rows_progress *at, {blocks}, int32_t wanted) {{",
            f"    while (at[{i}].done < wanted) {{",
            *(f"        {symbol}_{j}(at, arena, input, tw_chain_wanted(&{symbol}, at, {i}));" for j in asked),
            f"        tw_chain_part(&{symbol}, at, {i}, arena, input, {int(table.chain.backwards)});",
            "    }",
            "}",
        ]
        yield "\n".join(lines)


def run(table: ChainTable, symbol: str, blocks: str) -> str:
    """The statement that runs a straight chain from a progress of zeros; its rows lie in ``blocks``."""
    goal = max(table.number.values())
    return f"{symbol}_{goal}(at, {blocks}, {table.chain.links[-1].height});"
