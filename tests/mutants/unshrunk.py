"""A pytest plugin: hypothesis tries the same examples every time, and does not look for a smaller one that fails."""

from __future__ import annotations

from hypothesis import Phase, settings

settings.register_profile("unshrunk", derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile("unshrunk")
