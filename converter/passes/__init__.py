"""The passes in the order in which ``convert`` applies them."""

from __future__ import annotations

from twinfer.converter.passes._rewrite import Pass

PIPELINE: tuple[Pass, ...] = ()
