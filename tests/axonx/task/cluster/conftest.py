"""What the tests of clusters share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from distributed import Client, LocalCluster


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with (
        LocalCluster(
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0", asynchronous=True
        ) as cluster,
        Client(cluster, asynchronous=True, set_as_default=False) as client,
    ):
        yield client
