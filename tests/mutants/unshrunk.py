"""A pytest plugin: hypothesis tries the same examples every time, without shrinking and without deadlines.

A run under a mutant only has to pass or fail, and slowness on a busy machine must not count as a failure.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "unshrunk",
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("unshrunk")
