"""What happens in a Dask worker whose service is not there, without one."""

from __future__ import annotations

import asyncio

import pytest
from distributed import Client, Queue
from support.task_managers import is_gone
from support.task_records import a_record

from axonx import __version__
from axonx.task.cluster import remote
from axonx.task.cluster.frames import QUEUE_FRAMES, TAKEN, FrameKind, WorkerOrder, inbox_name
from axonx.task.metadata import TaskMetadata


async def test_an_order_that_another_worker_has_taken_is_left_alone(client: Client):
    assert await client.submit(remote.run_in_worker, "run", "outbox") == TAKEN


async def test_a_task_whose_service_takes_no_frames_any_more_is_ended(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(remote, "ALIVE_SECONDS", 0.0)
    record = a_record("base#act#one", input_params={"action": "sleep"})
    inbox = await Queue(inbox_name(record.run_id), client=client, maxsize=QUEUE_FRAMES)
    outbox = await Queue("outbox", client=client, maxsize=QUEUE_FRAMES)
    order = WorkerOrder(
        version=__version__, record=record, target="support.research:ActTask", environment={}, grace_seconds=5
    )
    await inbox.put(order.model_dump_json().encode())

    future = client.submit(remote.run_in_worker, record.run_id, "outbox")
    async with asyncio.timeout(60):
        assert (await outbox.get())[1] == FrameKind.BEGUN
        await inbox.put([FrameKind.FILES_END.value, None])
        running = None
        while running is None:
            _, kind, payload = await outbox.get()
            running = TaskMetadata.model_validate_json(payload) if kind == FrameKind.RECORD else None
        monkeypatch.setattr(remote, "ORPHANED_SECONDS", 0.3)
        await outbox.get()  # whatever is put now, or waits to be, still has the usual time
        with pytest.raises(TimeoutError):
            await future

    assert running.pid is not None and is_gone(running.pid)
