"""What every test shares."""

from __future__ import annotations

import pytest
from hypothesis import settings

# No deadline per example: two busy cores would fail tests of something else.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio: the host and AxonX are written for it."""
    return "asyncio"
