"""What belongs to one user is not there for another, whatever the route.

The table says for each route what it is about. A route that is missing in it fails the first test.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import httpx
import pytest
from deerflow_extension_api import ExtensionRegistry, require_admin, resolve_principal
from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import iter_route_contexts
from support.gateways import SLOW, GatewayClient, said
from support.held import Held
from support.lasting import lasting
from support.users import UsersGateway, serving_users, users_app, users_gateway

from deerflow.gateway.web_page import public_page_paths

SECRET = "swordfish"


@dataclass(frozen=True)
class Case:
    """What a route answers to its owner and an administrator, and to a stranger.

    An `endless` response lasts until the client leaves.
    """

    body: Any = None
    owner: int = 200
    stranger: int = 404
    admin: int = 200
    query: dict[str, str] = field(default_factory=dict)
    endless: bool = False


def _gone(body: Any = None) -> Case:
    return Case(body, owner=204, admin=204)


RUN = said("hello " + SECRET)
OPEN = {"owner": 200, "stranger": 200, "admin": 200}
CASES: dict[tuple[str, str], Case] = {
    ("POST", "/threads/{thread_id}/runs"): Case(RUN),
    ("POST", "/threads/{thread_id}/runs/stream"): Case({**RUN, "multitask_strategy": "interrupt"}),
    ("POST", "/threads/{thread_id}/runs/wait"): Case({**RUN, "multitask_strategy": "interrupt"}),
    ("GET", "/threads/{thread_id}/runs"): Case(),
    ("GET", "/threads/{thread_id}/runs/{run_id}"): Case(),
    ("DELETE", "/threads/{thread_id}/runs/{run_id}"): _gone(),
    ("GET", "/threads/{thread_id}/runs/{run_id}/join"): Case(),
    ("GET", "/threads/{thread_id}/runs/{run_id}/stream"): Case(),
    ("POST", "/threads/{thread_id}/runs/{run_id}/cancel"): Case(owner=409, admin=409),
    ("GET", "/threads/{thread_id}"): Case(),
    ("PATCH", "/threads/{thread_id}"): Case({"metadata": {"mine": True}}),
    ("DELETE", "/threads/{thread_id}"): _gone(),
    ("POST", "/threads/{thread_id}/copy"): Case(),
    ("GET", "/threads/{thread_id}/state"): Case(),
    ("GET", "/threads/{thread_id}/state/{checkpoint_id}"): Case(),
    ("POST", "/threads/{thread_id}/state/checkpoint"): Case(
        {"checkpoint": {"checkpoint_id": "{checkpoint_id}"}}
    ),
    ("POST", "/threads/{thread_id}/state"): Case({"values": {"messages": []}, "as_node": "model"}),
    ("GET", "/threads/{thread_id}/history"): Case(),
    ("POST", "/threads/{thread_id}/history"): Case({}),
    ("GET", "/threads/{thread_id}/stream"): Case(endless=True),
    ("POST", "/threads/{thread_id}/commands"): Case({"id": 1, "method": "agent.getTree"}),
    ("POST", "/threads/{thread_id}/stream/events"): Case({"channels": ["values"]}, endless=True),
    ("GET", "/threads/{thread_id}/files"): Case(),
    ("GET", "/threads/{thread_id}/files/{path:path}"): Case(),
    ("PUT", "/threads/{thread_id}/files/{path:path}"): Case({}),
    ("POST", "/threads/{thread_id}/files/{path:path}"): Case({}, owner=201, admin=201),
    ("DELETE", "/threads/{thread_id}/files/{path:path}"): _gone(),
    ("GET", "/assistants/{assistant_id}"): Case(),
    ("PATCH", "/assistants/{assistant_id}"): Case({"name": "mine"}),
    ("DELETE", "/assistants/{assistant_id}"): _gone(),
    ("POST", "/assistants/{assistant_id}/versions"): Case({}),
    ("POST", "/assistants/{assistant_id}/latest"): Case({"version": 1}),
    ("GET", "/assistants/{assistant_id}/graph"): Case(),
    ("GET", "/assistants/{assistant_id}/schemas"): Case(),
    ("GET", "/assistants/{assistant_id}/subgraphs"): Case(),
    ("GET", "/assistants/{assistant_id}/subgraphs/{namespace}"): Case(),
    # Named in the body
    ("POST", "/threads"): Case({"thread_id": "{thread_id}", "if_exists": "do_nothing"}),
    ("POST", "/assistants"): Case(
        {"graph_id": "lead_agent", "assistant_id": "{assistant_id}", "if_exists": "do_nothing"}
    ),
    ("POST", "/runs"): Case({**RUN, "assistant_id": "{assistant_id}"}),
    ("POST", "/runs/stream"): Case({**RUN, "assistant_id": "{assistant_id}"}),
    ("POST", "/runs/wait"): Case({**RUN, "assistant_id": "{assistant_id}"}),
    ("POST", "/runs/batch"): Case([{**RUN, "assistant_id": "{assistant_id}"}]),
    ("POST", "/runs/cancel"): Case(
        {"thread_id": "{thread_id}", "run_ids": ["{slow_id}"]}, owner=204, admin=204
    ),
    # Lists and sweeps: a stranger gets an answer, with nothing of the owner's in it
    ("POST", "/threads/search"): Case({}, **OPEN),
    ("POST", "/threads/count"): Case({"metadata": {"secret": SECRET}}, **OPEN),
    ("POST", "/threads/prune"): Case({"thread_ids": ["{thread_id}"]}, **OPEN),
    ("POST", "/assistants/search"): Case({}, **OPEN),
    ("POST", "/assistants/count"): Case({"metadata": {"secret": SECRET}}, **OPEN),
    # Each user's store is a place of its own, an administrator's, too
    ("PUT", "/store/items"): Case(
        {"namespace": ["n"], "key": "k", "value": {}}, owner=204, stranger=204, admin=204
    ),
    ("GET", "/store/items"): Case(query={"namespace": "n", "key": "k"}, **OPEN),
    ("DELETE", "/store/items"): Case({"namespace": ["n"], "key": "k"}, owner=204, stranger=204, admin=204),
    ("POST", "/store/items/search"): Case({}, **OPEN),
    ("POST", "/store/namespaces"): Case({}, **OPEN),
    # About nobody's things
    ("GET", "/auth/me"): Case(**OPEN),
    ("POST", "/auth/logout"): Case(owner=204, stranger=204, admin=204),
    ("GET", "/docs"): Case(**OPEN),
    ("GET", "/redoc"): Case(**OPEN),
    ("GET", "/openapi.json"): Case(**OPEN),
    ("GET", "/metrics"): Case(owner=403, stranger=403),
    # Contributed
    ("GET", "/acme/mine"): Case(**OPEN),
    ("POST", "/acme/mine"): Case({}, **OPEN),
    ("GET", "/acme/raw"): Case(**OPEN),
    ("GET", "/acme/admin"): Case(owner=403, stranger=403),
}
PUBLIC = {"/ok", "/info", "/health/live", "/health/ready", "/auth/login"} | public_page_paths()


@pytest.fixture(autouse=True)
def _acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension with routes of its own, one of them without FastAPI's dependencies."""
    router = APIRouter(prefix="/acme", dependencies=[])

    @router.get("/mine")
    @router.post("/mine")
    def mine(request: Request) -> Any:
        principal = resolve_principal(request)
        assert principal is not None
        return {"user_id": principal.user_id}

    @router.get("/admin")
    def admin(request: Request) -> Any:
        return {"user_id": require_admin(request).user_id}

    async def raw(request: Request) -> Any:
        return mine(request)

    router.add_api_route("/raw", raw, methods=["GET"])

    def install(registry: ExtensionRegistry, config: Any) -> None:
        registry.routers([router])

    module: Any = ModuleType("acme")
    module.install = install
    monkeypatch.setitem(sys.modules, "acme", module)


def _app(home: Path) -> FastAPI:
    return users_app(home, [SLOW], plugins=[{"use": "acme:install", "required": True}])


def _routes(app: FastAPI) -> set[tuple[str, str]]:
    return {
        (method, str(context.path))
        for context in iter_route_contexts(app.router.routes)
        for method in (context.methods or set()) - {"HEAD"}
    }


def test_table_names_every_route(tmp_path: Path) -> None:
    routes = {(method, path) for method, path in _routes(_app(tmp_path)) if path not in PUBLIC}
    assert routes == CASES.keys()


@asynccontextmanager
async def _gateway(home: Path) -> AsyncIterator[UsersGateway]:
    async with serving_users(_app(home)) as gateway:
        yield gateway


async def _things(client: GatewayClient) -> dict[str, str]:
    """A thread with a finished run and one under way, an assistant and an item."""
    secret = {"secret": SECRET}
    thread_id = await client.thread(metadata=secret)
    run_id = await client.start(thread_id, f"hello {SECRET}")
    await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
    state = (await client.get(f"/threads/{thread_id}/state")).json()
    slow_id = await client.start(thread_id, "slow")
    assistant = {"graph_id": "lead_agent", "name": SECRET, "metadata": secret}
    assistant_id = (await client.post("/assistants", json=assistant)).json()["assistant_id"]
    await client.put("/store/items", json={"namespace": ["n"], "key": "k", "value": secret})
    await client.put(f"/threads/{thread_id}/files/a.txt", content=SECRET)
    return {
        "thread_id": thread_id,
        "run_id": run_id,
        "slow_id": slow_id,
        "checkpoint_id": state["checkpoint"]["checkpoint_id"],
        "assistant_id": assistant_id,
        "namespace": "n",
    }


def _filled(value: Any, things: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, things) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, things) for item in value]
    return value.format(**things) if isinstance(value, str) else value


async def _ask(client: GatewayClient, route: tuple[str, str], things: dict[str, str]) -> Any:
    method, path = route
    case = CASES[route]
    json = {} if case.body is None else {"json": _filled(case.body, things)}
    path = path.replace("{path:path}", "a.txt").format(**things)
    if case.endless:
        async with lasting(client, method, path, **json) as stream:
            return httpx.Response(stream.status, headers=stream.headers, content=stream.body)
    return await client.request(method, path, params=case.query, **json)


async def test_anonymous_requests_reach_no_route(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as gateway:
        things = await _things(await gateway.user("alice"))
        nobody = gateway.client()
        for route in CASES:
            response = await _ask(nobody, route, things)
            assert (response.status_code, SECRET in response.text) == (401, False), route


async def test_strangers_find_nothing_on_any_route_and_change_nothing(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        things = await _things(alice)
        for route, case in CASES.items():
            response = await _ask(bob, route, things)
            assert response.status_code == case.stranger, (route, response.text)
            assert SECRET not in response.text, route
            if case.stranger == 404:
                assert set(response.json()) == {"detail"}, route
        runs = (await alice.get(f"/threads/{things['thread_id']}/runs")).json()
        assert [run["run_id"] for run in runs] == [things["slow_id"], things["run_id"]]
        assert runs[0]["status"] in ("pending", "running")
        thread = (await alice.get(f"/threads/{things['thread_id']}")).json()
        assert thread["metadata"]["secret"] == SECRET and "mine" not in thread["metadata"]
        assistant = (await alice.get(f"/assistants/{things['assistant_id']}")).json()
        assert (assistant["name"], assistant["version"]) == (SECRET, 1)
        item = await alice.get("/store/items", params={"namespace": "n", "key": "k"})
        assert item.json()["value"] == {"secret": SECRET}


async def test_strangers_are_told_the_same_as_of_what_does_not_exist(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        things = await _things(alice)
        nothing = {key: str(uuid4()) for key in things}
        for route, case in CASES.items():
            if case.stranger != 404 or route in {("POST", "/threads"), ("POST", "/assistants")}:
                continue
            if route == ("POST", "/threads/{thread_id}/stream/events"):
                continue  # what is nobody's may become the caller's
            real, unreal = await _ask(bob, route, things), await _ask(bob, route, nothing)
            told = real.text
            for key, value in things.items():
                told = told.replace(value, nothing[key]) if key.endswith("_id") else told
            assert (real.status_code, told) == (unreal.status_code, unreal.text), route


@pytest.mark.parametrize("caller", ["owner", "admin"])
async def test_owners_and_administrators_are_served_on_every_route(tmp_path: Path, caller: str) -> None:
    async with _gateway(tmp_path) as gateway:
        alice, root = await gateway.user("alice"), await gateway.admin("root")
        for route, case in CASES.items():
            things = await _things(alice)
            if route != ("POST", "/runs/cancel"):  # which needs something to cancel
                await alice.post(f"/threads/{things['thread_id']}/runs/{things['slow_id']}/cancel?wait=1")
            response = await _ask(alice if caller == "owner" else root, route, things)
            wanted = case.owner if caller == "owner" else case.admin
            assert response.status_code == wanted, (route, response.text)


async def test_lists_and_counts_hold_ones_own_alone_and_everything_for_administrators(tmp_path: Path) -> None:
    async with users_gateway(tmp_path, [SLOW]) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        root = await gateway.admin("root")
        await _things(alice)
        for path, others in (("threads", 0), ("assistants", 1)):
            for client, wanted in ((alice, others + 1), (bob, others), (root, others + 1)):
                assert (await client.post(f"/{path}/count", json={})).json() == wanted
                assert len((await client.post(f"/{path}/search", json={})).json()) == wanted


async def test_cancelling_everything_stops_ones_own_runs_alone(tmp_path: Path) -> None:
    async with users_gateway(tmp_path, [SLOW]) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        things = await _things(alice)
        assert (await bob.post("/runs/cancel", json={"status": "all"})).status_code == 404
        run = (await alice.get(f"/threads/{things['thread_id']}/runs/{things['slow_id']}")).json()
        assert run["status"] in ("pending", "running")
        assert (await alice.post("/runs/cancel", json={"status": "all"})).status_code == 204


async def test_thread_that_is_taken_cannot_be_claimed(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        thread_id = await alice.thread()
        claimed = await bob.post("/threads", json={"thread_id": thread_id})
        assert claimed.status_code == 409
        response = await bob.post(f"/threads/{thread_id}/runs/wait", json=said("x", if_not_exists="create"))
        assert response.status_code == 404


async def test_a_run_of_a_stranger_is_refused_before_it_queues_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        thread_id = await alice.thread()
        starting = Held(monkeypatch, alice.host.runs, "start")
        starting.let_go.set()
        assert (await bob.post(f"/threads/{thread_id}/runs", json=RUN)).status_code == 404
        assert not starting.reached.is_set()
        await alice.start(thread_id, "hello")
        assert starting.reached.is_set()


async def test_owner_cannot_be_forged(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        theirs = await alice.thread()
        forged = {
            "user_id": "alice",
            "owner": "alice",
            "thread_id": theirs,
            "langgraph_auth_user_id": "alice",
        }
        mine = await bob.thread(**{**forged, "thread_id": str(uuid4())}, metadata=forged)
        body = said(
            "hello",
            **forged,
            context={**forged, "__pregel_checkpointer": 1, "checkpoint_ns": "x"},
            metadata=forged,
            config={**forged, "configurable": {}, "metadata": forged},
        )
        headers = {"X-User-Id": "alice", "X-Forwarded-User": "alice", "Remote-User": "alice"}
        response = await bob.post(f"/threads/{mine}/runs/wait", json=body, headers=headers)
        assert response.status_code == 200, response.text
        stateless = await bob.post("/runs/wait", json={**body, "on_completion": "keep"}, headers=headers)
        assert stateless.status_code == 200, stateless.text
        (run,) = (await bob.get(f"/threads/{mine}/runs")).json()
        assert (run["kwargs"]["context"], run["kwargs"]["config"]) == ({}, {"metadata": forged})
        assert len((await bob.post("/threads/search", json={})).json()) == 2
        assert [t["thread_id"] for t in (await alice.post("/threads/search", json={})).json()] == [theirs]
        for checkpoint in ({"thread_id": theirs}, {"thread_id": theirs, "checkpoint_id": str(uuid4())}):
            body = said("hello", checkpoint=checkpoint)
            assert (await bob.post(f"/threads/{mine}/runs/wait", json=body)).status_code == 422


async def test_administrators_act_on_other_peoples_threads_in_their_name(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice, root = await gateway.user("alice"), await gateway.admin("root")
        thread_id = await alice.thread()
        run_id = await root.start(thread_id, "hello")
        assert (await alice.get(f"/threads/{thread_id}/runs/{run_id}/join")).status_code == 200
        copied = (await root.post(f"/threads/{thread_id}/copy")).json()["thread_id"]
        assert (await alice.get(f"/threads/{copied}")).status_code == 404
        again = await root.post("/threads", json={"thread_id": thread_id, "if_exists": "do_nothing"})
        assert again.json()["thread_id"] == thread_id


async def test_creating_one_thread_many_times_gives_its_owner_one(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        body = {"thread_id": str(uuid4()), "if_exists": "do_nothing"}
        answers = [(await alice.post("/threads", json=body)).status_code for _ in range(5)]
        assert (answers, (await bob.post("/threads", json=body)).status_code) == ([200] * 5, 404)


async def test_history_after_a_restart_is_its_owners(tmp_path: Path) -> None:
    async with serving_users(users_app(tmp_path)) as gateway:
        tokens = [await gateway.add(name) for name in ("alice", "bob")]
        alice = gateway.client(tokens[0])
        thread_id = await alice.thread()
        for text in ("one", "two"):
            await alice.say(thread_id, text)
    async with serving_users(users_app(tmp_path)) as gateway:
        alice, bob = map(gateway.client, tokens)
        runs = (await alice.get(f"/threads/{thread_id}/runs")).json()
        assert [run["kwargs"]["input"]["messages"][0]["content"] for run in runs] == ["two", "one"]
        assert len((await alice.post(f"/threads/{thread_id}/history", json={})).json()) > 2
        for path in ("", "/runs", "/history", f"/runs/{runs[0]['run_id']}"):
            assert (await bob.get(f"/threads/{thread_id}{path}")).status_code == 404
