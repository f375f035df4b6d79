"""One connection to a cluster, without Tasks in it."""

from __future__ import annotations

import logging

from distributed import Client, Event

from axonx.task.cluster.connection import ClusterPlace
from axonx.task.cluster.frames import FrameKind, cancel_name
from axonx.task.cluster.link import ClusterLink


async def test_a_worker_whose_run_was_given_up_here_is_asked_to_end(client: Client):
    address = client.scheduler_info()["address"]
    place = ClusterPlace(address, n_workers=None, processes=False, connect_timeout_seconds=30)
    link = await ClusterLink.open(place, logging.getLogger())
    try:
        await link._outbox.put(["given-up", FrameKind.ALIVE.value, None])

        assert await Event(cancel_name("given-up"), client=client).wait(timeout=30)
    finally:
        await link.close()
