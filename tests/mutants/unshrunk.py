"""A pytest plugin: hypothesis tries the same examples every time, without shrinking and without deadlines.

A run under a mutant only has to pass or fail, and slowness on a busy machine must not count as a failure.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "unshrunk",
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.hookimpl(trylast=True)  # after tests/conftest.py, which loads its own
def pytest_configure() -> None:
    settings.load_profile("unshrunk")
