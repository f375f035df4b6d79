"""Extensions read runs page by page, and no change is lost between two pages."""

from __future__ import annotations

import asyncio
import base64
import threading
from typing import Any

import pytest
from deerflow_extension_api import InvalidRunEvidenceCursor, RunEvidenceReader, RunPage
from sqlalchemy import update
from sqlalchemy.engine import Connection
from support.records import new_event, new_thread, start_run

from deerflow.config import AppConfig, config_from
from deerflow.persistence import Database, open_database
from deerflow.persistence.rows import next_change
from deerflow.persistence.tables import runs
from deerflow.runs.record import RunRecord, RunStatus


async def read_all(reader: RunEvidenceReader, cursor: str | None = None, limit: int = 2) -> list[RunPage]:
    pages = [await reader.list_changed_runs(cursor=cursor, limit=limit)]
    while pages[-1].has_more:
        pages.append(await reader.list_changed_runs(cursor=pages[-1].next_cursor, limit=limit))
    return pages


def ids(pages: list[RunPage]) -> list[str]:
    return [view.run_id for page in pages for view in page.items]


async def test_runs_come_in_the_order_of_their_last_change(database: Database) -> None:
    made = [await start_run(database) for _ in range(5)]
    await database.stores.runs.move(made[1].run_id, RunStatus.RUNNING)
    pages = await read_all(database.evidence)
    assert ids(pages) == [made[index].run_id for index in (0, 2, 3, 4, 1)]
    assert [page.has_more for page in pages] == [True, True, False]
    assert pages[-1].items[-1].status == "running"


async def test_a_run_that_changes_is_returned_again(database: Database) -> None:
    run = await start_run(database)
    cursor = (await read_all(database.evidence))[-1].next_cursor
    empty = await database.evidence.list_changed_runs(cursor=cursor, limit=10)
    assert (empty.items, empty.next_cursor, empty.has_more) == ((), cursor, False)
    await database.stores.runs.move(run.run_id, RunStatus.ERROR, error="why", stop_reason="because")
    (page,) = await read_all(database.evidence, cursor)
    (view,) = page.items
    assert (view.run_id, view.thread_id) == (run.run_id, run.thread_id)
    assert (view.status, view.error, view.stop_reason) == ("error", "why", "because")
    assert view.created_at == run.created_at.isoformat()
    assert view.created_at.endswith("+00:00")


async def test_an_empty_database_has_no_cursor_yet(database: Database) -> None:
    page = await database.evidence.list_changed_runs(cursor=None, limit=1)
    assert (page.items, page.next_cursor, page.has_more) == ((), None, False)


async def test_a_deleted_run_leaves_no_trace_and_hides_nobody(database: Database) -> None:
    made = [await start_run(database) for _ in range(3)]
    first = await database.evidence.list_changed_runs(cursor=None, limit=3)
    await database.stores.threads.delete(made[2].thread_id)
    reader = database.evidence
    assert await reader.get_run_status(thread_id=made[2].thread_id, run_id=made[2].run_id) is None
    late = await start_run(database)
    page = await reader.list_changed_runs(cursor=first.next_cursor, limit=10)
    assert ids([page]) == [late.run_id]


async def test_status_of_one_run(database: Database) -> None:
    run = await start_run(database)
    view = await database.evidence.get_run_status(thread_id=run.thread_id, run_id=run.run_id)
    assert view is not None
    assert (view.status, view.updated_at) == ("pending", run.updated_at.isoformat())
    assert await database.evidence.get_run_status(thread_id="another", run_id=run.run_id) is None


async def test_events_are_paged_and_detached(database: Database) -> None:
    run = await start_run(database)
    events = [new_event({"n": [n]}, metadata={"m": n}) for n in range(5)]
    await database.stores.events.append(run.thread_id, run.run_id, events)
    reader, run_ids = database.evidence, {"thread_id": run.thread_id, "run_id": run.run_id}
    first = await reader.list_run_events(**run_ids, after_seq=None, limit=3)
    assert [view.seq for view in first.items] == [1, 2, 3]
    assert (first.next_after_seq, first.has_more) == (3, True)
    first.items[0].content["n"].append("changed")
    again = await reader.list_run_events(**run_ids, after_seq=0, limit=1)
    assert again.items[0].content == {"n": [0]}
    assert again.items[0].metadata == {"m": 0}
    assert (again.items[0].event_type, again.items[0].category) == ("note", "custom")
    assert again.items[0].created_at == events[0].created_at.isoformat()
    rest = await reader.list_run_events(**run_ids, after_seq=3, limit=2)
    assert ([view.seq for view in rest.items], rest.has_more, rest.next_after_seq) == ([4, 5], False, 5)
    none = await reader.list_run_events(**run_ids, after_seq=5, limit=2)
    assert (none.items, none.has_more, none.next_after_seq) == ((), False, 5)
    unknown = await reader.list_run_events(thread_id="t", run_id="r", after_seq=None, limit=1)
    assert (unknown.items, unknown.has_more, unknown.next_after_seq) == ((), False, None)


@pytest.mark.parametrize("limit", [0, -1, 2001, True, 1.0, "5", None])
async def test_limits_out_of_range_are_refused(database: Database, limit: Any) -> None:
    with pytest.raises(ValueError, match="2000"):
        await database.evidence.list_changed_runs(cursor=None, limit=limit)
    with pytest.raises(ValueError, match="2000"):
        await database.evidence.list_run_events(thread_id="t", run_id="r", after_seq=None, limit=limit)


@pytest.mark.parametrize("after_seq", [-1, True, 0.5, "1"])
async def test_wrong_event_numbers_are_refused(database: Database, after_seq: Any) -> None:
    with pytest.raises(ValueError, match="after_seq"):
        await database.evidence.list_run_events(thread_id="t", run_id="r", after_seq=after_seq, limit=1)


async def test_limits_at_the_edges_are_taken(database: Database) -> None:
    await start_run(database)
    for limit in (1, 2000):
        assert len((await database.evidence.list_changed_runs(cursor=None, limit=limit)).items) == 1


def forged(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "é", "\x00", "a" * 5000, 7, b"abc"),
        *(forged("1:1"), forged("1:1:0000000000000000"), forged("2:1:0000000000000000")),
        *(forged("1:one:0000000000000000"), forged(f"1:{'9' * 5000}:0"), forged("1:-1:0")),
    ],
)
async def test_cursors_that_nobody_issued_are_refused(database: Database, cursor: Any) -> None:
    await start_run(database)
    with pytest.raises(InvalidRunEvidenceCursor):
        await database.evidence.list_changed_runs(cursor=cursor, limit=1)


async def test_a_cursor_of_another_database_is_refused(database: Database) -> None:
    run = await start_run(database)
    async with open_database(config_from({"database": {"backend": "memory"}})) as other:
        await start_run(other)
        cursor = (await other.evidence.list_changed_runs(cursor=None, limit=1)).next_cursor
    with pytest.raises(InvalidRunEvidenceCursor, match="another database"):
        await database.evidence.list_changed_runs(cursor=cursor, limit=1)
    own = (await database.evidence.list_changed_runs(cursor=None, limit=1)).next_cursor
    assert own is not None
    with pytest.raises(InvalidRunEvidenceCursor):
        await database.evidence.list_changed_runs(cursor=own[:-1], limit=1)
    assert run.run_id not in base64.b64decode(own + "==", altchars="-_").decode()


async def test_a_cursor_ahead_of_a_restored_database_is_refused(database: Database) -> None:
    await start_run(database)
    cursor = (await database.evidence.list_changed_runs(cursor=None, limit=1)).next_cursor
    await database.transactions.write(
        lambda connection: connection.exec_driver_sql("UPDATE run_changes SET last_change = 0").rowcount
    )
    with pytest.raises(InvalidRunEvidenceCursor, match="restored"):
        await database.evidence.list_changed_runs(cursor=cursor, limit=1)


async def test_a_cursor_survives_a_restart(lasting_config: AppConfig) -> None:
    async with open_database(lasting_config) as first:
        await start_run(first)
        cursor = (await first.evidence.list_changed_runs(cursor=None, limit=1)).next_cursor
    async with open_database(lasting_config) as second:
        run = await start_run(second)
        assert ids(await read_all(second.evidence, cursor)) == [run.run_id]


async def test_nothing_is_skipped_while_writers_work(lasting_config: AppConfig) -> None:
    """Two hosts on one database change runs while a reader follows them."""
    async with open_database(lasting_config) as first, open_database(lasting_config) as second:
        moved: list[RunRecord] = []
        seen: dict[str, str] = {}

        async def write(database: Database) -> None:
            thread = new_thread()
            for _ in range(15):
                run = await start_run(database, thread)
                await database.stores.runs.move(run.run_id, RunStatus.RUNNING)
                moved.append(await database.stores.runs.move(run.run_id, RunStatus.SUCCESS))

        async def follow(writers: asyncio.Future[Any]) -> None:
            cursor = None
            while True:
                done = writers.done()
                for page in await read_all(second.evidence, cursor, limit=7):
                    cursor = page.next_cursor
                    seen.update({view.run_id: view.status for view in page.items})
                if done:
                    return

        writers = asyncio.gather(*(write(database) for database in (first, second) for _ in range(4)))
        await follow(writers)
        await writers
    assert seen == {run.run_id: "success" for run in moved}
    assert len(seen) == 8 * 15


async def test_a_change_waits_until_an_earlier_one_is_committed(lasting_config: AppConfig) -> None:
    """Otherwise a reader could pass the later one first, and never see the earlier."""
    async with open_database(lasting_config) as first, open_database(lasting_config) as second:
        early, late = await start_run(first), await start_run(first)
        cursor = (await read_all(first.evidence))[-1].next_cursor
        numbered, commit = threading.Event(), threading.Event()

        def change_slowly(connection: Connection) -> None:
            row = {"status": "running", "change_seq": next_change(connection)}
            connection.execute(update(runs).where(runs.c.run_id == early.run_id).values(row))
            numbered.set()
            assert commit.wait(10)

        slow = asyncio.create_task(first.transactions.write(change_slowly))
        await asyncio.to_thread(numbered.wait, 10)
        fast = asyncio.create_task(second.stores.runs.move(late.run_id, RunStatus.RUNNING))
        await asyncio.wait({fast}, timeout=0.3)
        assert ids(await read_all(first.evidence, cursor)) == []
        commit.set()
        await asyncio.gather(slow, fast)
        assert ids(await read_all(first.evidence, cursor)) == [early.run_id, late.run_id]
