"""One HTML file that needs no other: what all reports share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from itertools import count
from math import isfinite
from typing import Any

from twinfer.bench.page.chart import Chart, Charts, distinct
from twinfer.bench.page.table import Table
from twinfer.runtime.errors import ToolError
from twinfer.runtime.printable import in_html

#: A text as HTML, a table, a chart, or several side by side.
Part = str | Table | Chart | Charts

#: What a page of charts weighs is mostly the library that draws them. It comes with the package vl-convert-python.
_LIBRARY = "window.vegaEmbed = vegaEmbed;"


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading, which the page's list of contents names."""

    title: str
    parts: tuple[Part, ...]

    @property
    def anchor(self) -> str:
        """What a link to it ends with, behind the #."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "section"


def page(title: str, parts: Iterable[Part | Section], data: Mapping[str, Any] | None = None) -> str:
    """The whole file: ``title`` as text, then the parts; of several sections a list with links comes first.

    ``data`` is kept in it as JSON, where a program finds it (``data_of``). ToolError if a chart is among the parts and
    vl-convert-python is missing.
    """
    every = list(parts)
    own = [part for part in every if isinstance(part, Section)]
    sections = dict(zip(distinct([section.anchor for section in own], "{}-{}"), own, strict=True))
    links = "".join(f'<li><a href="#{anchor}">{in_html(each.title)}</a></li>' for anchor, each in sections.items())
    contents = f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n' if len(sections) > 1 else ""
    numbers, anchors, body = count(), iter(sections), ""
    for part in every:
        if isinstance(part, Section):
            body += f'<section id="{next(anchors)}"><h2>{in_html(part.title)}</h2>\n'
            body += "".join(_part(each, numbers) for each in part.parts) + "</section>\n"
        else:
            body += _part(part, numbers)
    charts = next(numbers) > 0
    kept = f'<script type="application/json" id="data">{json_in_script(data)}</script>\n' if data else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{in_html(title)}</title>
<style>{_own("page.css")}</style></head>
<body><header><h1>{in_html(title)}</h1><button id="theme" type="button">Dark or light</button></header>
{contents}<main>
{body}</main>
{kept}{f"<script>{library()}</script>" if charts else ""}<script>{_own("page.js")}</script></body></html>
"""


def need_library() -> None:
    """ToolError if the package is missing that has the library which draws charts."""
    if find_spec("vl_convert") is None:
        raise ToolError("charts are drawn by Vega-Lite: pip install 'twinfer[report]'")


@cache
def library() -> str:
    """Vega-Embed with all that it needs, as JavaScript. ToolError if vl-convert-python is missing."""
    need_library()
    import vl_convert

    return vl_convert.javascript_bundle(_LIBRARY).replace("</script", r"<\/script")


def json_in_script(value: Any) -> str:
    """JSON that a script element may hold: no text in it ends the element or begins a comment; NaN and infinity, which
    JSON lacks, are null."""
    return json.dumps(_finite(value), ensure_ascii=True, allow_nan=False).replace("<", r"\u003c")


def data_of(html: str) -> Any:
    """The JSON that a page keeps; None if it keeps none."""
    kept = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(kept[1]) if kept else None


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _own(name: str) -> str:
    return files("twinfer.bench.page").joinpath(name).read_text(encoding="utf-8")


def _part(part: Part, numbers: Iterator[int]) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Table):
        return part.html
    if isinstance(part, Charts):
        figures = "".join(_figure(chart, next(numbers)) for chart in part.charts)
        return f'<div class="charts" style="--least: {part.width}px">{figures}</div>\n'
    return _figure(part, next(numbers))


def _figure(chart: Chart, number: int) -> str:
    """A chart's place in the page and its description; the script of the page draws it there."""
    return (
        f'<figure class="chart" id="chart-{number}"><figcaption>{in_html(chart.title)}</figcaption>'
        f'<div class="plot" role="img" aria-label="{in_html(chart.about)}"></div>'
        f'<script type="application/json">{json_in_script(chart.whole)}</script></figure>\n'
    )
