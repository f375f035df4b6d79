"""What every test shares."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# No deadline per example: two busy cores would fail tests of something else. The same examples every time:
# what fails, fails for the change that is tested, and everywhere.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores, as many tests wait; few enough for PostgreSQL's connections."""
    return min((os.cpu_count() or 1) + 1, 6)


@pytest.fixture(scope="session", autouse=True)
def _plugins_in_children() -> Iterator[None]:
    """Tests of authors, which tests run in processes of their own, start without what authors have not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_ADDOPTS", "-p no:langsmith_plugin -p no:schemathesis")
        yield


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio: the host and AxonX are written for it."""
    return "asyncio"
