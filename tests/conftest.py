"""What every test shares."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio: the host and AxonX are written for it."""
    return "asyncio"
