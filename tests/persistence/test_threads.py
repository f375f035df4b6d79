"""Threads are kept, found and changed alike on every backend."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from support.records import new_thread, start_run

from deerflow.errors import ConflictError, InvalidRequestError, NotFoundError
from deerflow.persistence import Database
from deerflow.runs.record import ThreadStatus
from deerflow.runs.stores import ThreadQuery


async def test_created_thread_comes_back_as_it_was(database: Database) -> None:
    thread = new_thread(metadata={"a": [1, {"b": None}]}, config={"z": 1, "a": 2}, status=ThreadStatus.ERROR)
    assert await database.stores.threads.create(thread) == thread
    assert await database.stores.threads.get(thread.thread_id) == thread


async def test_creating_a_known_id_is_a_conflict(database: Database) -> None:
    thread = await database.stores.threads.create(new_thread())
    with pytest.raises(ConflictError, match=thread.thread_id):
        await database.stores.threads.create(thread)


async def test_get_hides_a_strangers_thread(database: Database) -> None:
    thread = await database.stores.threads.create(new_thread("ada"))
    assert await database.stores.threads.get(thread.thread_id, user_id="ada") == thread
    assert await database.stores.threads.get(thread.thread_id, user_id="bob") is None
    assert await database.stores.threads.get("unknown") is None


async def test_get_or_create_returns_what_is_there(database: Database) -> None:
    first = await database.stores.threads.get_or_create(new_thread(metadata={"n": 1}))
    again = new_thread(thread_id=first.thread_id, metadata={"n": 2})
    assert await database.stores.threads.get_or_create(again) == first


@pytest.mark.parametrize("stranger", ["bob", None])
async def test_get_or_create_refuses_another_owner(database: Database, stranger: str | None) -> None:
    thread = await database.stores.threads.create(new_thread("ada"))
    with pytest.raises(NotFoundError):
        await database.stores.threads.get_or_create(new_thread(stranger, thread_id=thread.thread_id))


async def test_racing_get_or_create_makes_one_thread_for_one_owner(database: Database) -> None:
    wanted = new_thread("ada")
    rivals = [new_thread("ada", thread_id=wanted.thread_id, metadata={"n": n}) for n in range(20)]
    made = await asyncio.gather(*(database.stores.threads.get_or_create(rival) for rival in rivals))
    assert all(thread == made[0] for thread in made)
    strangers = [new_thread("bob", thread_id=wanted.thread_id) for _ in range(5)]
    refused = await asyncio.gather(
        *(database.stores.threads.get_or_create(stranger) for stranger in strangers), return_exceptions=True
    )
    assert {type(error) for error in refused} == {NotFoundError}


async def test_concurrent_merges_of_different_keys_all_survive(database: Database) -> None:
    thread = await database.stores.threads.create(new_thread(metadata={"kept": {"deep": 1}}))
    await asyncio.gather(
        *(database.stores.threads.merge_metadata(thread.thread_id, {f"key{n}": n}) for n in range(30))
    )
    merged = await database.stores.threads.get(thread.thread_id)
    assert merged is not None
    assert merged.metadata == {"kept": {"deep": 1}, **{f"key{n}": n for n in range(30)}}


async def test_merge_of_what_is_absent_leaves_what_has_a_value(database: Database) -> None:
    thread = await database.stores.threads.create(new_thread(metadata={"title": "mine", "note": None}))
    wanted = {"title": "theirs", "note": "new", "more": 1}
    merged = await database.stores.threads.merge_metadata(thread.thread_id, wanted, only_absent=True)
    assert merged.metadata == {"title": "mine", "note": "new", "more": 1}


async def test_merge_replaces_top_level_values_and_keeps_null(database: Database) -> None:
    thread = await database.stores.threads.create(new_thread(metadata={"a": {"x": 1}, "b": 1}))
    merged = await database.stores.threads.merge_metadata(thread.thread_id, {"a": {"y": 2}, "b": None})
    assert merged.metadata == {"a": {"y": 2}, "b": None}
    assert merged.updated_at > thread.updated_at


async def test_merge_into_a_missing_thread_is_refused(database: Database) -> None:
    with pytest.raises(NotFoundError):
        await database.stores.threads.merge_metadata("unknown", {"a": 1})


async def test_touch_state_notes_moment_and_status(database: Database) -> None:
    thread = await database.stores.threads.create(new_thread())
    await database.stores.threads.touch_state(thread.thread_id, ThreadStatus.INTERRUPTED)
    touched = await database.stores.threads.get(thread.thread_id)
    assert touched is not None
    assert touched.status is ThreadStatus.INTERRUPTED
    assert touched.state_updated_at is not None
    assert touched.state_updated_at > thread.created_at


async def test_search_finds_metadata_that_contains_what_is_asked(database: Database) -> None:
    threads = database.stores.threads
    wanted = await threads.create(
        new_thread(metadata={"graph_id": "lead", "tags": ["x", {"y": 1}], "nested": {"a": 1, "b": 2}})
    )
    await threads.create(new_thread(metadata={"graph_id": "other", "flag": 1}))
    for part in (
        {"graph_id": "lead"},
        {"nested": {"b": 2}},
        {"tags": [{"y": 1}]},
        {"tags": []},
        {"nested": {}, "graph_id": "lead"},
    ):
        assert await threads.search(ThreadQuery(metadata=part)) == [wanted], part
        assert await threads.count(ThreadQuery(metadata=part)) == 1
    for part in ({"flag": True}, {"graph_id": None}, {"nested": {"a": 2}}, {"tags": ["y"]}, {'a"b': 1}):
        assert await threads.search(ThreadQuery(metadata=part)) == [], part


async def test_search_orders_pages_and_filters(database: Database) -> None:
    threads = database.stores.threads
    start = datetime(2026, 3, 29, tzinfo=UTC)
    made = [
        await threads.create(new_thread(created_at=start + timedelta(minutes=n), status=ThreadStatus.BUSY))
        for n in range(5)
    ]
    await threads.create(new_thread("bob"))
    ids = [thread.thread_id for thread in made]
    newest_first = await threads.search(ThreadQuery(user_id="ada", limit=2, offset=1))
    assert [thread.thread_id for thread in newest_first] == [ids[3], ids[2]]
    oldest_first = await threads.search(ThreadQuery(user_id="ada", sort_order="asc", limit=2))
    assert [thread.thread_id for thread in oldest_first] == ids[:2]
    assert await threads.count(ThreadQuery(status=ThreadStatus.BUSY)) == 5
    assert await threads.count(ThreadQuery(ids=ids[:3])) == 3
    assert await threads.count(ThreadQuery(ids=[])) == 0
    assert await threads.count(ThreadQuery()) == 6


async def test_search_refuses_an_unknown_order(database: Database) -> None:
    with pytest.raises(InvalidRequestError, match="event_seq"):
        await database.stores.threads.search(ThreadQuery(sort_by="event_seq"))
    with pytest.raises(InvalidRequestError, match="sideways"):
        await database.stores.threads.search(ThreadQuery(sort_order="sideways"))


async def test_moments_are_the_same_instant_in_utc(database: Database) -> None:
    shanghai = timezone(timedelta(hours=8))
    moment = datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=shanghai)
    thread = new_thread(created_at=moment)
    await database.stores.threads.create(thread)
    kept = await database.stores.threads.get(thread.thread_id)
    assert kept is not None
    assert kept.created_at == moment
    assert kept.created_at.tzinfo is UTC
    assert kept.created_at.isoformat() == "2026-03-28T18:30:00.123456+00:00"


async def test_a_moment_without_time_zone_is_refused(database: Database) -> None:
    with pytest.raises(InvalidRequestError, match="time zone"):
        await database.stores.threads.create(new_thread(created_at=datetime(2026, 1, 1)))


async def test_text_that_no_database_holds_is_mended(database: Database) -> None:
    thread = new_thread(metadata={"k\x00": ["a\ud800b", "\ud83d\ude00"]}, user_id="u\x00")
    await database.stores.threads.create(thread)
    kept = await database.stores.threads.get(thread.thread_id)
    assert kept is not None
    assert kept.metadata == {"k\ufffd": ["a\ufffdb", "\U0001f600"]}
    assert kept.user_id == "u\ufffd"
    assert await database.stores.threads.get("\x00\udc00") is None


async def test_what_json_cannot_hold_is_refused(database: Database) -> None:
    with pytest.raises(InvalidRequestError, match="JSON"):
        await database.stores.threads.create(new_thread(metadata={"x": object()}))


async def test_deleting_a_thread_takes_its_runs_along(database: Database) -> None:
    run = await start_run(database)
    assert await database.stores.threads.delete(run.thread_id) is True
    assert await database.stores.threads.delete(run.thread_id) is False
    assert await database.stores.runs.get(run.run_id) is None
