"""The page of ``twinfer explain``, and the part of a report that says what compiling is worth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from twinfer.bench.explain.causes import CAUSES, ordered
from twinfer.bench.page.page import Part, Section, page
from twinfer.bench.report.charts import ladder_chart, layers_chart, waterfall
from twinfer.bench.report.tables import ladder_table, ledger_tables
from twinfer.runtime.printable import in_html

Document = Mapping[str, Any]


def explained_html(ledgers: Sequence[Document]) -> str:
    """One HTML file that needs no other, of ledgers of one model. ToolError without vl-convert-python."""
    model = ledgers[0]["model"]
    sections = (Section(f"On {ledger['target']}", tuple(_parts(ledger))) for ledger in ledgers)
    return page(f"What compiling {model} is worth", sections)


def _parts(ledger: Document) -> Iterator[Part]:
    yield layers_chart(ledger)
    yield from ledger_parts(ledger)
    if "ladder" in ledger:
        yield from ladder_parts(ledger["ladder"])


def ledger_parts(ledger: Document) -> Iterator[Part]:
    """A ledger as a chart, words, and tables."""
    yield _paragraph(ledger["words"])
    yield waterfall(ledger)
    causes = ordered(ledger["total"]["causes"])
    yield listed(f"<b>{in_html(CAUSES[cause].word)}</b>: {in_html(CAUSES[cause].about)}." for cause in causes)
    yield from ledger_tables(ledger)


def ladder_parts(ladder: Document) -> Iterator[Part]:
    """A ladder as a chart, a table, and words."""
    yield ladder_chart(ladder)
    yield ladder_table(ladder)
    yield _paragraph(ladder["words"])


def _paragraph(sentences: Iterable[str]) -> str:
    return f"<p>{' '.join(map(in_html, sentences))}</p>\n"


def listed(items: Iterable[str]) -> str:
    """A list of texts that are HTML."""
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>\n"
