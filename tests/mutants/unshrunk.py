"""A pytest plugin: hypothesis tries the same examples every time, looks for no smaller one, and takes its time.

Of a run under a mutant only whether it fails is wanted, and on a busy machine slowness would count as noticing.
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
