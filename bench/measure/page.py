"""One HTML file that needs no other: what the reports of bench and converter share."""

from __future__ import annotations

from collections.abc import Iterable

from twinfer.runtime.printable import in_html

#: Colours that everybody can tell apart (Okabe and Ito's).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")

_STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: bold; padding: .3em 0; }
th, td { text-align: right; padding: .2em .7em; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tfoot td { font-weight: bold; }
.name { white-space: normal; overflow-wrap: break-word; max-width: 18em; }
.good { color: #00702b; } .bad { color: #c00000; font-weight: bold; } svg text { font-size: 13px; fill: #222; }
svg { margin: .5em 1.5em .5em 0; } td svg { margin: 0; } figure { margin: 1em 0; overflow-x: auto; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole file: ``title`` as text, ``parts`` as HTML."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{in_html(title)}</title><style>{_STYLE}</style></head>
<body><h1>{in_html(title)}</h1>
{"".join(parts)}</body></html>
"""


def svg(width: float, height: float, shapes: Iterable[str]) -> str:
    """A picture of that size in pixels."""
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>{"".join(shapes)}</svg>'


def wide(width: float, height: float, shapes: Iterable[str]) -> str:
    """A picture that may be wider than a telephone: it scrolls by itself, not with the page."""
    return f"<figure>{svg(width, height, shapes)}</figure>"
