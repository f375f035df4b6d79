"""Threads are given a time to live over HTTP, show when they expire, and are gone then."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.gateways import UNKNOWN_ID, GatewayClient, gateway
from support.users import users_gateway

from deerflow.runs.record import utc_now
from deerflow.runs.thread_ttl import MAX_TTL_MINUTES


async def shown(client: GatewayClient, thread_id: str) -> Any:
    """What the thread says of its time to live."""
    response = await client.get(f"/threads/{thread_id}", params={"include": "ttl"})
    assert response.status_code == 200, response.text
    return response.json().get("ttl")


def later(thread: Any, **span: float) -> datetime:
    return datetime.fromisoformat(thread["updated_at"]) + timedelta(**span)


@pytest.mark.parametrize(
    ("ttl", "minutes", "strategy"),
    [
        (60, 60, "delete"),
        (0.5, 0.5, "delete"),
        ({"ttl": 60}, 60, "delete"),
        ({"ttl": 43_200, "strategy": None}, 43_200, "delete"),
        ({"ttl": 60, "strategy": "keep_latest"}, 60, "keep_latest"),
        ({"ttl": MAX_TTL_MINUTES, "strategy": "delete"}, MAX_TTL_MINUTES, "delete"),
    ],
)
async def test_a_thread_shows_when_it_expires_where_that_is_asked(
    tmp_path: Path, ttl: Any, minutes: float, strategy: str
) -> None:
    async with gateway(tmp_path) as client:
        created = (await client.post("/threads", json={"ttl": ttl})).json()
        path = f"/threads/{created['thread_id']}"
        assert (await client.get(path)).json() == created
        found = (await client.get(path, params={"include": [" ttl,", "ttl"]})).json()
        assert datetime.fromisoformat(found["ttl"].pop("expires_at")) == later(created, minutes=minutes)
        assert found == {**created, "ttl": {"strategy": strategy, "ttl_minutes": minutes}}
        listed = (await client.post("/threads/search", json={})).json()
        assert "ttl" not in created and listed == [created]


async def test_a_thread_without_a_time_to_live_lasts_for_ever(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_ids = [await client.thread(), await client.thread(ttl=None)]
        assert [await shown(client, thread_id) for thread_id in thread_ids] == [None, None]
        await client.host.sweep.sweep(utc_now() + timedelta(days=100_000))
        assert (await client.post("/threads/count", json={})).json() == 2


async def test_a_time_to_live_is_changed_from_now_on(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread(ttl=10, metadata={"a": 1})
        ttl = {"ttl": 60, "strategy": "keep_latest"}
        patched = (await client.patch(f"/threads/{thread_id}", json={"ttl": ttl})).json()
        assert (patched["metadata"], "ttl" in patched) == ({"a": 1}, False)
        found = await shown(client, thread_id)
        assert (found["strategy"], found["ttl_minutes"]) == ("keep_latest", 60)
        assert datetime.fromisoformat(found["expires_at"]) == later(patched, minutes=60)
        named = (await client.patch(f"/threads/{thread_id}", json={"metadata": {"b": 2}, "ttl": None})).json()
        assert named["metadata"] == {"a": 1, "b": 2}
        found = await shown(client, thread_id)
        assert (found["strategy"], found["ttl_minutes"]) == ("keep_latest", 60)
        assert datetime.fromisoformat(found["expires_at"]) == later(named, minutes=60), "it was used"


async def test_an_existing_thread_is_left_as_it_is(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread(thread_id=UNKNOWN_ID, ttl=10, if_exists="do_nothing")
        before = await shown(client, thread_id)
        assert before["ttl_minutes"] == 10
        await client.thread(thread_id=UNKNOWN_ID, ttl=60, if_exists="do_nothing")
        refused = await client.post("/threads", json={"thread_id": UNKNOWN_ID, "ttl": 60})
        assert (refused.status_code, await shown(client, thread_id)) == (409, before)


async def test_a_copy_lasts_for_ever(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread(ttl=10)
        twin = (await client.post(f"/threads/{thread_id}/copy")).json()["thread_id"]
        assert await shown(client, twin) is None
        await client.host.sweep.sweep(utc_now() + timedelta(minutes=11))
        assert [(await client.get(f"/threads/{each}")).status_code for each in (thread_id, twin)] == [
            404,
            200,
        ]


async def test_a_thread_that_began_with_a_history_expires_too(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        messages = {"messages": [{"role": "user", "content": "hello"}]}
        steps = [{"updates": [{"values": messages, "as_node": "__input__"}]}]
        thread_id = await client.thread(ttl=10, supersteps=steps)
        assert (await shown(client, thread_id))["ttl_minutes"] == 10


SENSELESS = [
    *("0", "-1", "true", '"60"', "[60]", "525600000.5", "{}", '{"strategy": "delete"}', '{"ttl": 0}'),
    *('{"ttl": -0.5}', '{"ttl": null}', '{"ttl": true}', '{"ttl": "60"}', '{"ttl": {}}'),
    *('{"ttl": 5, "strategy": "keep"}', '{"ttl": 5, "strategy": 1}', '{"ttl": 1e300}'),
]
NO_JSON = ["NaN", '{"ttl": NaN}', '{"ttl": Infinity}', "1e400", f'{{"ttl": 1{"0" * 400}}}']


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_senseless_time_to_live_is_refused_and_named(tmp_path: Path, method: str) -> None:
    async with gateway(tmp_path) as client:
        path, headers = f"/threads/{await client.thread()}", {"content-type": "application/json"}
        for named, values in (("body.ttl", SENSELESS), ("not valid JSON", NO_JSON)):
            for ttl in values:
                body = f'{{"metadata": {{"a": 1}}, "ttl": {ttl}}}'
                url = "/threads" if method == "POST" else path
                response = await client.request(method, url, content=body, headers=headers)
                assert (response.status_code, named in response.json()["detail"]) == (422, True), ttl
        (thread,) = (await client.post("/threads/search", json={})).json()
        assert thread["metadata"] == {}, "nothing was made or changed"


@pytest.mark.parametrize("include", ["colour", "ttl,colour", ["colour", "ttl"]])
async def test_only_what_there_is_can_be_included(tmp_path: Path, include: Any) -> None:
    async with gateway(tmp_path) as client:
        response = await client.get(f"/threads/{await client.thread()}", params={"include": include})
        assert response.status_code == 422
        assert "include: 'colour' is not known" in response.json()["detail"]


async def test_what_runs_on_a_thread_says_nothing_of_its_time_to_live(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread(ttl=10)
        await client.say(thread_id, "hello", ttl=60)
        assert (await shown(client, thread_id))["ttl_minutes"] == 10


async def test_a_stranger_neither_sees_nor_changes_a_time_to_live(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as users:
        ada, bob = await users.user("ada"), await users.user("bob")
        thread_id = await ada.thread(ttl=10)
        before, path = await shown(ada, thread_id), f"/threads/{thread_id}"
        assert (await bob.get(path, params={"include": "ttl"})).status_code == 404
        assert (await bob.patch(path, json={"ttl": 60})).status_code == 404
        again = {"thread_id": thread_id, "ttl": 60, "if_exists": "do_nothing"}
        assert (await bob.post("/threads", json=again)).status_code == 404
        assert await shown(ada, thread_id) == before
        await ada.host.sweep.sweep(utc_now() + timedelta(minutes=11))
        assert (await ada.get(path)).status_code == 404
