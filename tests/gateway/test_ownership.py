"""What belongs to one user is not there for another, whatever the route."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from support.gateways import SLOW, GatewayClient, said
from support.users import users_gateway

from deerflow.gateway.app import host_routes

_OF_THREADS = sorted(
    (method, route.path)
    for route in host_routes()
    if "{thread_id}" in getattr(route, "path", "")
    for method in getattr(route, "methods", None) or ()
)
_BODIES: dict[str, Any] = {
    "/runs": said("mine now"),
    "/runs/stream": said("mine now"),
    "/runs/wait": said("mine now"),
    "/state/checkpoint": {"checkpoint": {"checkpoint_id": str(uuid4())}},
    "/state": {"values": {"messages": []}},
    "/history": {},
}


def _body(path: str) -> Any:
    tail = path.removeprefix("/threads/{thread_id}")
    return _BODIES.get(tail, {"metadata": {"mine": True}})


async def _things(client: GatewayClient) -> dict[str, str]:
    """A thread of this client with a checkpoint and a run under way."""
    thread_id = await client.thread(metadata={"secret": "swordfish"})
    await client.say(thread_id, "hello")
    state = (await client.get(f"/threads/{thread_id}/state")).json()
    run_id = await client.start(thread_id, "slow")
    return {"thread_id": thread_id, "run_id": run_id, "checkpoint_id": state["checkpoint"]["checkpoint_id"]}


async def test_another_users_thread_is_not_there_on_any_route(tmp_path: Path) -> None:
    async with users_gateway(tmp_path, [SLOW]) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        things = await _things(alice)
        assert len(_OF_THREADS) > 15
        for method, path in _OF_THREADS:
            json = _body(path) if method in ("POST", "PATCH") else None
            response = await bob.request(method, path.format(**things), json=json)
            assert response.status_code == 404, (method, path, response.text)
            assert "swordfish" not in response.text
        runs = (await alice.get(f"/threads/{things['thread_id']}/runs")).json()
        assert len(runs) == 2 and {run["status"] for run in runs} <= {"success", "pending", "running"}
        kept = (await alice.get(f"/threads/{things['thread_id']}")).json()
        assert kept["metadata"]["secret"] == "swordfish" and "mine" not in kept["metadata"]


async def test_searches_counts_and_sweeps_see_ones_own_alone(tmp_path: Path) -> None:
    async with users_gateway(tmp_path, [SLOW]) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        things = await _things(alice)
        thread_id = things["thread_id"]
        assert (await bob.post("/threads/search", json={})).json() == []
        assert (await bob.post("/threads/count", json={})).json() == 0
        assert len((await alice.post("/threads/search", json={})).json()) == 1
        await bob.post("/threads/prune", json={"thread_ids": [thread_id]})
        cancelled = await bob.post(
            "/runs/cancel", json={"thread_id": thread_id, "run_ids": [things["run_id"]]}
        )
        assert cancelled.status_code in (204, 404), cancelled.text
        assert (await alice.get(f"/threads/{thread_id}")).status_code == 200
        run = (await alice.get(f"/threads/{thread_id}/runs/{things['run_id']}")).json()
        assert run["status"] in ("pending", "running")


async def test_a_thread_that_is_taken_cannot_be_claimed(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice, bob = await gateway.user("alice"), await gateway.user("bob")
        thread_id = await alice.thread()
        for body in ({"thread_id": thread_id}, {"thread_id": thread_id, "if_exists": "do_nothing"}):
            claimed = await bob.post("/threads", json=body)
            assert claimed.status_code in (404, 409), claimed.text
        response = await bob.post(f"/threads/{thread_id}/runs/wait", json=said("x", if_not_exists="create"))
        assert response.status_code == 404, response.text


async def test_an_administrator_sees_everything(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice, root = await gateway.user("alice"), await gateway.admin("root")
        thread_id = await alice.thread()
        assert (await root.get(f"/threads/{thread_id}")).status_code == 200
        assert len((await root.post("/threads/search", json={})).json()) == 1
