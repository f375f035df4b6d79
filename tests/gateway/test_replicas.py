"""Two replicas on one database: what was started through one is followed and stopped through the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.crashes import ended, leave_under_way, until
from support.gateways import ASKING, FAILING, SLOW, UNKNOWN_ID, GatewayClient, answer, said, serving
from support.held import Held
from support.hosts import DELEGATE_TWICE, scripted_config
from support.redis_server import RedisServer
from support.users import serving_users, users_app

from deerflow.gateway.app import create_app
from deerflow.runs import finish
from deerflow.runs.events.log import IDS_PER_ATTEMPT
from deerflow.runs.hosts import foreign, watch
from deerflow.runs.record import RunRecord

STEPS = {"when": "^step", "turns": [{"text": "one two three"}]}
BRIEF: Any = {"shutdown": {"drain_seconds": 0.01}}
PARAMS = [pytest.param(True, marks=pytest.mark.redis, id="redis"), pytest.param(False, id="records")]

WHOLE = {"Last-Event-ID": "-1"}
USERS: Any = {"ann": {}, "bob": {}, "root": {"admin": True, "admin_token": True}}

Replicas = tuple[GatewayClient, GatewayClient]


@asynccontextmanager
async def replicas_on(home: Path, redis: RedisServer | None = None) -> AsyncIterator[Replicas]:
    """Two started Gateways."""
    stream: dict[str, Any] = {} if redis is None else {"backend": "redis", "url": redis.url}
    rules = [SLOW, STEPS, FAILING, ASKING, DELEGATE_TWICE]
    config = scripted_config(home, rules, database={"backend": "sqlite"}, stream=stream, **BRIEF)
    apps = [create_app(config) for _ in range(2)]
    async with serving(apps[0]) as first, serving(apps[1]) as second:
        yield first, second


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(foreign, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(finish, "STEP_SECONDS", 60.0)  # tests hold them


@pytest.fixture(params=PARAMS)
async def replicas(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Replicas]:
    """Two replicas, which share events, or only the records of runs."""
    redis = request.getfixturevalue("redis_server") if request.param else None
    async with replicas_on(tmp_path, redis) as both:
        yield both


@pytest.fixture
async def sharing(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Replicas]:
    """Two replicas that share events."""
    async with replicas_on(tmp_path, redis_server) as both:
        yield both


async def followed(client: GatewayClient, times: int) -> None:
    """Wait until so many readers follow runs of others there."""
    await until(lambda: client.host.runs._followers._waiting == times)


def named(events: list[Any]) -> list[tuple[str, str | None]]:
    return [(event.name, event.id) for event in events]


@pytest.mark.redis
async def test_a_run_is_streamed_alike_through_both(sharing: Replicas) -> None:
    first, second = sharing
    thread_id = await first.thread()
    modes = ["values", "messages-tuple", "custom"]
    run_id = await first.start(thread_id, "delegate", stream_mode=modes)
    path = f"/threads/{thread_id}/runs/{run_id}/stream"
    here, there = await asyncio.gather(*(client.events("GET", path, headers=WHOLE) for client in sharing))
    assert [(event.name, event.id, event.data) for event in here] == [
        (event.name, event.id, event.data) for event in there
    ]
    assert here[0].name == "metadata" and here[-1].name == "end"
    for after in ("1", here[-2].id, here[-1].id):
        rest = [await client.events("GET", path, headers={"Last-Event-ID": after}) for client in sharing]
        assert named(rest[0]) == named(rest[1]) == named(here)[int(after or 0) :]
    some = [
        await client.events("GET", path, headers=WHOLE, params={"stream_mode": "custom"})
        for client in sharing
    ]
    assert named(some[0]) == named(some[1])
    assert {event.name for event in some[1]} == {"metadata", "custom", "end"}
    assert named(await second.events("GET", path)) == named(here)[-1:]


@pytest.mark.redis
async def test_joining_without_an_id_shows_what_comes_from_now_on(
    sharing: Replicas, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sharing
    graph = Held(monkeypatch, first.host.assembler, "lead")
    thread_id = await first.thread()
    run_id = await first.start(thread_id, "step", stream_mode=["values", "messages-tuple"])
    path = f"/threads/{thread_id}/runs/{run_id}/stream"
    with redis_server.client() as redis:
        await until(lambda: redis.xlen(f"deerflow:run:{run_id}") == 1)  # the beginning has been told
        joined = asyncio.create_task(second.events("GET", path))
        await until(lambda: redis.info("clients")["blocked_clients"] == 1)
    graph.let_go.set()
    events = await joined
    assert named(events)[0] == ("values", "2")
    assert events[-1].name == "end" and "gap" not in {event.name for event in events}


async def test_a_run_can_be_joined_listed_and_read_through_the_other(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = replicas
    ending = Held(monkeypatch, finish, "save_ending")
    thread_id = await first.thread()
    run_id = await first.start(thread_id, "step")
    path = f"/threads/{thread_id}/runs"
    assert [run["run_id"] for run in (await second.get(path)).json()] == [run_id]
    for is_under_way in (True, False):
        reading = asyncio.gather(
            second.get(f"{path}/{run_id}/join"), second.events("GET", f"{path}/{run_id}/stream")
        )
        if is_under_way:
            await followed(second, 2)
            ending.let_go.set()
        joined, streamed = await reading
        assert answer(joined.json()) == "one two three"
        assert joined.headers["content-location"] == f"{path}/{run_id}"
        assert (streamed[-1].name, streamed[-1].data["status"]) == ("end", "success")
    assert answer((await second.get(f"/threads/{thread_id}/state")).json()["values"]) == "one two three"
    assert answer(await second.say(thread_id, "hello")) == "echo: hello"
    assert answer((await first.get(f"/threads/{thread_id}/state")).json()["values"]) == "echo: hello"


@pytest.mark.parametrize(("action", "wait"), [("interrupt", False), ("rollback", True)])
async def test_a_run_is_cancelled_through_the_other(replicas: Replicas, action: str, wait: bool) -> None:
    first, second = replicas
    thread_id = await first.thread()
    run_id = await first.start(thread_id, "slow")
    path = f"/threads/{thread_id}/runs/{run_id}"
    await until(lambda: first.host.runs.find(run_id).log.last_id >= 2)  # type: ignore[union-attr]
    stream = asyncio.create_task(second.events("GET", f"{path}/stream"))
    joined = asyncio.create_task(second.get(f"{path}/join"))
    await followed(second, 2)
    asked = await second.post(f"{path}/cancel", params={"action": action, "wait": int(wait)})
    assert asked.status_code == (200 if wait else 202)
    events = await stream
    assert (events[-1].name, events[-1].data["status"]) == ("end", "interrupted")
    assert "__error__" in (await joined).json()
    await until(lambda: first.host.runs.find(run_id) is None)
    record = (await second.get(path)).json()
    assert record.get("status") == (None if action == "rollback" else "interrupted")
    assert answer(await second.say(thread_id, "hello")) == "echo: hello"


async def test_failures_and_questions_are_told_through_the_other(replicas: Replicas) -> None:
    first, second = replicas
    for text, context, status in (
        ("fail", {}, "error"),
        ("ask", {"approve_tools": ["write_file"]}, "interrupted"),
    ):
        thread_id = await first.thread()
        run_id = await first.start(thread_id, text, context=context)
        path = f"/threads/{thread_id}/runs/{run_id}"
        joined = (await second.get(f"{path}/join")).json()
        assert ("__error__" in joined, "__interrupt__" in joined) == (text == "fail", text == "ask")
        end = (await second.events("GET", f"{path}/stream"))[-1]
        assert (end.name, end.data["status"]) == ("end", status)
    resumed = await second.post(
        f"/threads/{thread_id}/runs/wait",
        json={"assistant_id": "lead_agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}},
    )
    assert answer(resumed.json()).startswith("written")


async def test_a_client_that_leaves_takes_its_run_with_it(replicas: Replicas) -> None:
    first, second = replicas
    thread_id = await first.thread()
    for verb in ("stream", "join"):
        run_id = await first.start(thread_id, "slow")
        path = f"/threads/{thread_id}/runs/{run_id}"
        request = second.get(f"{path}/{verb}", params={"cancel_on_disconnect": "true"})
        leaving = asyncio.create_task(request)
        await followed(second, 1)
        leaving.cancel()
        await ended(first.host, run_id)
        assert (await second.get(path)).json()["status"] == "interrupted"


@pytest.mark.redis
async def test_a_temporary_run_is_followed_through_the_other_also_after_its_end(
    sharing: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sharing
    for text, result in (("step", "one two three"), ("fail", None)):
        ending = Held(monkeypatch, finish, "save_ending")
        run = (await first.post("/runs", json=said(text))).json()
        path = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
        for is_under_way in (True, False):
            reading = asyncio.gather(
                second.get(f"{path}/join"), second.events("GET", f"{path}/stream", headers=WHOLE)
            )
            if is_under_way:
                await followed(second, 2)
                ending.let_go.set()
            joined, events = await reading
            assert (events[0].name, events[-1].name) == ("metadata", "end")
            assert "gap" not in {event.name for event in events}
            if result is None:
                assert "the model broke" in joined.json()["__error__"]["message"]
            else:
                assert answer(joined.json()) == result
        assert (await second.get(path)).status_code == 404
        other = f"/threads/{UNKNOWN_ID}/runs/{run['run_id']}/stream"
        assert (await second.get(other)).status_code == 404
        assert (await second.post(f"{path}/cancel")).status_code == 409


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[Replicas]:
    """Two replicas that share only the records of runs."""
    async with replicas_on(tmp_path) as both:
        yield both


async def test_without_shared_events_a_temporary_run_is_told_as_long_as_its_thread_is_there(
    apart: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = apart
    removal = Held(monkeypatch, finish, "_remove_thread")
    run = (await first.post("/runs", json=said("step"))).json()
    path = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
    joined, events = await asyncio.gather(second.get(f"{path}/join"), second.events("GET", f"{path}/stream"))
    assert answer(joined.json()) == "one two three"
    assert (events[-1].name, events[-1].data["status"]) == ("end", "success")
    removal.let_go.set()


@pytest.mark.parametrize("is_read_late", [False, True], ids=["state", "record"])
async def test_without_shared_events_a_temporary_run_that_is_gone_is_told_as_removed(
    apart: Replicas, monkeypatch: pytest.MonkeyPatch, is_read_late: bool
) -> None:
    """Its thread goes before the other replica reads its record again, or between that and its state."""
    first, second = apart
    ending, removal = Held(monkeypatch, finish, "save_ending"), Held(monkeypatch, finish, "_remove_thread")
    run = (await first.post("/runs", json=said("step"))).json()
    path = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
    following = asyncio.gather(second.get(f"{path}/join"), second.events("GET", f"{path}/stream"))
    await followed(second, 2)
    late = (second.host.database.stores.runs, "get") if is_read_late else (second.host.states, "read")
    reading = Held(monkeypatch, *late)
    ending.let_go.set()
    await reading.reached.wait()
    removal.let_go.set()
    await until(lambda: first.host.runs.find(run["run_id"]) is None)
    reading.let_go.set()
    joined, events = await following
    assert events[-1].name == "end"
    assert joined.json()["__error__"]["error"] == "NotFoundError"


@pytest.mark.redis
async def test_owners_are_the_same_at_both(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = Held(monkeypatch, finish, "save_ending")
    stream = {"backend": "redis", "url": redis_server.url}
    apps = [users_app(tmp_path, [STEPS], stream=stream, **BRIEF) for _ in range(2)]
    async with serving_users(apps[0]) as first, serving_users(apps[1]) as second:
        ann, bob, root = [await first.add(name, **rights) for name, rights in USERS.items()]
        here = first.client(ann)
        thread_id = await here.thread()
        run_id = await here.start(thread_id, "step")
        path = f"/threads/{thread_id}/runs/{run_id}"
        stranger = second.client(bob)
        for method, suffix in (
            ("GET", ""),
            ("GET", "/stream"),
            ("GET", "/join"),
            ("POST", "/cancel"),
            ("DELETE", ""),
        ):
            assert (await stranger.request(method, path + suffix)).status_code == 404, suffix
        assert (await second.client().get(f"{path}/stream")).status_code == 401
        ending.let_go.set()
        for token in (ann, root):
            events = await second.client(token).events("GET", f"{path}/stream", headers=WHOLE)
            assert (events[0].name, events[-1].name) == ("metadata", "end")
        assert answer((await second.client(ann).get(f"{path}/join")).json()) == "one two three"
        run = (await here.post("/runs", json=said("step"))).json()
        path = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
        await here.get(f"{path}/join")
        await until(lambda: first.app.state.host.runs.find(run["run_id"]) is None)
        events = await second.client(ann).events("GET", f"{path}/stream", headers=WHOLE)
        assert events[-1].name == "end"
        assert (await stranger.get(f"{path}/stream", headers=WHOLE)).status_code == 404


@pytest.mark.redis
async def test_redis_that_goes_away_costs_other_replicas_events_and_nobody_the_end(
    sharing: Replicas, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sharing

    async def answers(value: float) -> bool:
        return f"deerflow_redis_answers {value}" in (await first.get("/metrics")).text

    graph = Held(monkeypatch, first.host.assembler, "lead")
    thread_id = await first.thread()
    run_id = await first.start(thread_id, "step", stream_mode=["values", "messages-tuple"])
    path = f"/threads/{thread_id}/runs/{run_id}/stream"
    streams = [asyncio.create_task(client.events("GET", path, headers=WHOLE)) for client in sharing]
    await followed(second, 1)
    redis_server.stop()
    graph.let_go.set()
    here, there = [await stream for stream in streams]
    assert [event.name for event in here][-2:] == ["values", "end"]
    assert [int(event.id) for event in here] == list(range(1, len(here) + 1))
    assert [event.name for event in there][-2:] == ["gap", "end"]
    await until(lambda: answers(0.0))
    assert there[-1].data["status"] == "success"
    redis_server.start()
    await until(lambda: answers(1.0))
    run_id = await first.start(thread_id, "step")
    path = f"/threads/{thread_id}/runs/{run_id}/stream"
    again = [await client.events("GET", path, headers=WHOLE) for client in sharing]
    assert again[0][-1].name == "end" and named(again[0]) == named(again[1])


async def test_a_client_that_waits_for_a_dead_host_sees_the_run_go_on_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = scripted_config(tmp_path, database={"backend": "sqlite"}, runs={"lease_seconds": 0.3})
    async with serving(create_app(config)) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello")
        path = f"/threads/{thread_id}/runs/{run_id}"
        await client.get(f"{path}/join")
        hosts = client.host.database.stores.hosts
        inherit, found = hosts.inherit, asyncio.Event()

        async def late(host_id: str) -> list[RunRecord]:
            return await inherit(host_id) if found.is_set() else []

        monkeypatch.setattr(hosts, "inherit", late)
        await until(lambda: client.host.runs.find(run_id) is None)
        client.host.runs._recent.forget(run_id)
        await leave_under_way(client.host, run_id, attempt=1, taken_up_here=True)
        headers = [{}, WHOLE, {"Last-Event-ID": "2"}]
        streams = [asyncio.create_task(client.events("GET", f"{path}/stream", headers=h)) for h in headers]
        joined = asyncio.create_task(client.get(f"{path}/join"))
        await followed(client, 4)
        found.set()
        live, everything, rest = [await stream for stream in streams]
        first = IDS_PER_ATTEMPT + 1
        assert (live[0].name, live[0].id, live[0].data["attempt"]) == ("metadata", str(first), 2)
        assert named(everything) == named(live)
        assert named(rest) == [("gap", None), *named(live)]
        assert rest[0].data == {"after": 2, "next": first}
        assert live[-1].name == "end"
        assert answer((await joined).json()) == "echo: hello"


async def test_a_replica_that_ends_lets_followers_see_the_end_in_the_time_for_its_own_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "LEAVING_SECONDS", 20.0)
    ending = Held(monkeypatch, finish, "save_ending")
    rules, sections = [STEPS, SLOW], {"database": {"backend": "sqlite"}}
    brief = create_app(scripted_config(tmp_path, rules, shutdown={"drain_seconds": 0.01}, **sections))
    patient = create_app(scripted_config(tmp_path, rules, shutdown={"drain_seconds": 60}, **sections))
    async with serving(brief) as first:
        async with serving(patient) as second:
            paths = []
            for text in ("step", "slow"):
                thread_id = await first.thread()
                paths.append(f"/threads/{thread_id}/runs/{await first.start(thread_id, text)}")
            stream = asyncio.create_task(second.events("GET", f"{paths[0]}/stream"))
            await followed(second, 1)
            closing = asyncio.create_task(until(lambda: not second.host.runs.accepting))
            closing.add_done_callback(lambda _: ending.let_go.set())
        assert (await stream)[-1].name == "end"
        async with serving(create_app(brief.state.config)) as third:
            streams = [asyncio.create_task(third.get(f"{paths[1]}/{verb}")) for verb in ("stream", "join")]
            await followed(third, 2)
        streamed, joined = await asyncio.gather(*streams, return_exceptions=True)
        assert isinstance(streamed, httpx.Response) and streamed.text == ""
        assert isinstance(joined, AssertionError)  # of the transport: the answer is not complete
