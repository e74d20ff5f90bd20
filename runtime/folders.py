"""Folders on the user's computer."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/twinfer``, or ``~/.cache/twinfer``."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "twinfer"  # tools run in folders of their own
