"""HTML pages in a headless browser, at the width of a desk and of a telephone, light and dark.

``check`` looks at a page as a reader would, and fails with everything that is wrong; ``findings`` is the list. Where
Chromium or playwright is missing, ``check`` skips the test; in CI it fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest

#: Pixels from left to right of the windows that every page is shown in, and the themes.
WIDTHS, THEMES = (1280, 390), ("light", "dark")

#: Debian's browser: playwright brings one of its own, which is not downloaded.
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"

#: Milliseconds until a page has drawn its charts.
PATIENCE = 30_000

#: The browser that is shared, if one is.
_OPEN: list[Any] = []

#: What a reader can press or fill in.
_CONTROLS = "a[href], button, input, select, summary, textarea"


def missing() -> list[str]:
    """What is not installed of Chromium, playwright and the library of charts."""
    absent = [name for name in ("playwright", "vl_convert") if find_spec(name) is None]
    if not Path(CHROMIUM).exists():
        absent.append("chromium (apt-get install chromium)")
    return absent


def need_browser() -> None:
    """Skips the test if one of these is missing; fails in CI."""
    if names := missing():
        message = f"pages are not looked at: {', '.join(names)}: not installed"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


def check(file: Path, every: bool = False) -> None:
    """Fails with everything that is wrong with the page in ``file``: on a dark telephone, or in every window."""
    need_browser()
    wrong = findings(file) if every else findings(file, WIDTHS[1:], THEMES[1:])
    assert not wrong, "\n".join(wrong)


def findings(file: Path, widths: Sequence[int] = WIDTHS, themes: Sequence[str] = THEMES) -> list[str]:
    """A line for everything that is wrong, with the window's width and the theme."""
    shown = windows(file, widths, themes)
    return [f"{width} {theme}: {fault}" for width, theme, page in shown for fault in faults(page)]


def windows(
    file: Path, widths: Sequence[int] = WIDTHS, themes: Sequence[str] = THEMES
) -> Iterator[tuple[int, str, Any]]:
    """The page in every window, without a network; ``page.said`` is what it said."""
    with ExitStack() as stack:
        browser = _OPEN[0] if _OPEN else stack.enter_context(one_browser())
        for width, theme in product(widths, themes):
            size: Any = {"width": width, "height": 800}
            context = browser.new_context(viewport=size, color_scheme=theme, offline=True)
            yield width, theme, _opened(context, file)
            context.close()


@contextmanager
def one_browser() -> Iterator[Any]:
    """Opens a browser that all tests of a module look with."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        _OPEN.append(playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]))
        yield _OPEN[0]
        _OPEN.pop().close()


@pytest.fixture(scope="module", autouse=True)
def shared_browser() -> Iterator[None]:
    """For modules with tests that look at pages: import it."""
    with one_browser() if not missing() else nullcontext():
        yield


def _opened(context: Any, file: Path) -> Any:
    """The page, after it has drawn its charts, or has failed to."""
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: said.append(f"warning: it loads {request.url}") if _foreign(request) else None)
    page.goto(file.resolve().as_uri())
    page.said = said
    for _ in range(PATIENCE // 50):
        page.wait_for_timeout(50)
        if _drawn(page) or any(line.startswith("error") for line in said):
            break
    return page


def _drawn(page: Any) -> bool:
    return page.evaluate("document.documentElement.dataset.drawn === 'yes'")


def _foreign(request: Any) -> bool:
    return not request.url.startswith(("file:", "data:", "blob:"))


def faults(page: Any) -> list[str]:
    """What the browser complains of, what is drawn wrongly, and what the keyboard does not reach."""
    wrong = [line for line in page.said if line.startswith(("error", "warning"))]
    if not _drawn(page):
        wrong.append("the charts are not drawn")
    wrong += page.evaluate((Path(__file__).with_suffix(".js")).read_text(encoding="utf-8"))
    return wrong + _unreached(page)


def _unreached(page: Any) -> list[str]:
    """Controls, and tables that scroll, which pressing Tab does not come to."""
    page.evaluate("window.reached = new Set(); document.activeElement.blur()")
    controls = page.evaluate(f"document.querySelectorAll('{_CONTROLS}').length")
    for _ in range(controls + 60):
        page.keyboard.press("Tab")
        if not page.evaluate("""() => { const at = document.activeElement;
                if (at === document.body || window.reached.has(at)) return false;
                window.reached.add(at); return true; }"""):
            break
    return page.evaluate(
        """(controls) => {
            const reached = (element) => [...window.reached].some((at) => element.contains(at));
            const scrolls = [...document.querySelectorAll('*')].filter((element) => element.scrollWidth
                > element.clientWidth + 1 && ['auto', 'scroll'].includes(getComputedStyle(element).overflowX));
            const pressed = [...document.querySelectorAll(controls)].filter((each) => each.getClientRects().length);
            return [...pressed, ...scrolls].filter((element) => !reached(element))
                .map((element) => `Tab does not come to ${element.outerHTML.slice(0, 80)}`);
        }""",
        _CONTROLS,
    )
