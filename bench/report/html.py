"""The page of a report: what takes the time, the RAM and the flash, and what to change; then all figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from twinfer.bench.explain.causes import CAUSES, ordered
from twinfer.bench.page.page import Part, Section, page
from twinfer.bench.report.charts import graph_chart, ladder_chart, layers_chart, noise_chart, waterfall
from twinfer.bench.report.maps import arena_chart, flash_chart
from twinfer.bench.report.summary import answers, figure
from twinfer.bench.report.tables import ladder_table, layers_table, ledger_tables, peak_tables, symbols_table
from twinfer.runtime.printable import in_html

Document = Mapping[str, Any]

_NOISE = """<p>Of random inputs, against the same layers in float32 with the real values of the same integers. Both \
lines say how strong the signal is beside the noise: of the layer's own rounding, and of all roundings up to it.</p>
"""


def report_html(document: Document) -> str:
    """One HTML file that needs no other; ``data_of`` reads the document back. ToolError without vl-convert-python."""
    title = f"{document['model']} on {document['target']}"
    return page(title, [_about(document), *_sections(document)], document)


def _about(document: Document) -> str:
    same = "All programs gave the same bits." if document["same_bits"] else "PROGRAMS GAVE OTHER BITS."
    chosen = ", ".join(f"{key} {value}" for key, value in document["options"].items() if isinstance(value, str))
    return (
        f'<p class="quiet">twinfer {in_html(document["twinfer"])}; sha256 {document["sha256"][:16]}…; '
        f"{document['file_bytes']:,} bytes of .tflite; {in_html(chosen)}. {same}</p>\n"
    )


def _sections(document: Document) -> Iterator[Section]:
    yield Section("In short", (_facts(document), *_summary(document)))
    yield Section("Layers", (layers_chart(document["ledger"]), layers_table(document)))
    yield Section("Memory", (arena_chart(document), _certificate(document), *peak_tables(document)))
    yield Section("What compiling is worth", tuple(ledger_parts(document["ledger"])))
    if document["ladder"]:
        yield Section("Techniques", tuple(ladder_parts(document["ladder"])))
    if document["flash"]:
        yield Section("Flash", (flash_chart(document), symbols_table(document)))
    if any(node["own_snr_db"] is not None for node in document["nodes"]):
        yield Section("Quantisation noise", (noise_chart(document), _NOISE))
    yield Section("Graph", (graph_chart(document),))


def _facts(document: Document) -> str:
    totals, unit = document["totals"], document["unit"]
    memory = document["memory"]
    proof = "no plan has less" if memory["arena_bytes"] + memory["state_bytes"] == memory["lower_bound_bytes"] else ""
    what = "instructions of one inference" if unit == "instructions" else "median of one inference"
    facts = [
        (figure(totals["compiled"], unit), f"compiled: {what}"),
        (figure(totals["interpreted"], unit), f"interpreted: {what}"),
        (f"{totals['interpreted'] / max(totals['compiled'], 1e-9):.2f} ×", "what compiling is worth"),
        (f"{totals['macs']:,}", "MACs"),
        (f"{totals['arena_bytes'] + totals['state_bytes']:,} B", ", ".join(filter(None, ["arena and state", proof]))),
    ]
    if totals["flash_bytes"] is not None:
        facts.append((f"{totals['flash_bytes']:,} B", f"flash, {totals['code_bytes']:,} of them no weights"))
    items = "".join(f"<li><b>{in_html(value)}</b><span>{in_html(label)}</span></li>" for value, label in facts)
    return f'<ul class="facts">{items}</ul>\n'


def _summary(document: Document) -> Iterator[str]:
    for heading, sentences in answers(document).items():
        yield f"<h3>{heading}</h3>{listed([in_html(sentence) for sentence in sentences])}"


def _certificate(document: Document) -> str:
    memory = document["memory"]
    whole, bound = memory["arena_bytes"] + memory["state_bytes"], memory["lower_bound_bytes"]
    proven = "It is proven that no placement has fewer." if memory["proven"] else "A better placement may exist."
    return (
        f"<p>Arena {memory['arena_bytes']:,} bytes, state {memory['state_bytes']:,}: together {whole:,}. "
        f"Most bytes are live at {in_html(memory['forced_by']['layer'])}: {bound:,}. {proven}</p>\n"
    )


# -- what compiling is worth -------------------------------------------------------------------------------------------


def explain_html(ledgers: Sequence[Document]) -> str:
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
