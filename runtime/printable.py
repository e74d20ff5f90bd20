"""Foreign text (names in models, names of files) made harmless for terminals."""

from __future__ import annotations


def printable(text: str, keep: str = "\n\t") -> str:
    r"""The text with every character that prints nothing of its own as its escape: ESC as \x1b, a bidi mark as \u202e.

    Those in ``keep`` stay. Control characters move the cursor and worse; bidi marks show another order than there is.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def in_html(text: str) -> str:
    """Foreign text made harmless for an HTML page: markup is escaped, too."""
    from html import escape  # takes a millisecond to import

    return escape(printable(text))
