"""Threads over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.gateways import ASKING, SLOW, UNKNOWN_ID, GatewayClient, answer, gateway

from deerflow.gateway.threads import search as thread_search


async def test_new_thread_has_the_fields_that_clients_expect(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post("/threads", json={"metadata": {"topic": "rivers"}})
        thread = response.json()
        assert response.status_code == 200
        assert set(thread) == {
            "thread_id", "created_at", "updated_at", "state_updated_at",
            "metadata", "config", "status", "values", "interrupts",
        }  # fmt: skip
        assert (thread["status"], thread["values"], thread["interrupts"]) == ("idle", None, {})
        assert (await client.get(f"/threads/{thread['thread_id']}")).json() == thread


async def test_known_id_is_a_conflict_unless_that_is_wanted(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        await client.thread(thread_id=UNKNOWN_ID, metadata={"first": True})
        again = await client.post("/threads", json={"thread_id": UNKNOWN_ID})
        assert again.status_code == 409
        assert UNKNOWN_ID in again.json()["detail"]
        kept = await client.post("/threads", json={"thread_id": UNKNOWN_ID, "if_exists": "do_nothing"})
        assert kept.json()["metadata"] == {"first": True}


@pytest.mark.parametrize("thread_id", ["../x", "a" * 200, "zaße", UNKNOWN_ID + "\n", "", UNKNOWN_ID[:-1]])
async def test_odd_ids_are_refused_and_nothing_is_stored(tmp_path: Path, thread_id: str) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post("/threads", json={"thread_id": thread_id})
        assert response.status_code == 422
        assert "UUID" in response.json()["detail"]
        assert (await client.post("/threads/count", json={})).json() == 0


async def test_upper_case_id_means_the_same_thread(tmp_path: Path) -> None:
    upper = "AAAAAAAA-AAAA-4AAA-8AAA-AAAAAAAAAAAA"
    async with gateway(tmp_path) as client:
        assert await client.thread(thread_id=upper) == upper.lower()
        assert (await client.get(f"/threads/{upper}")).json()["thread_id"] == upper.lower()
        assert answer(await client.say(upper, "hello")) == "echo: hello"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/copy"), ("GET", "/state"), ("POST", "/state"),
        ("GET", "/history"), ("POST", "/history"), ("GET", "/runs"), ("GET", f"/runs/{UNKNOWN_ID}"),
        ("DELETE", f"/runs/{UNKNOWN_ID}"), ("GET", f"/runs/{UNKNOWN_ID}/join"),
        ("GET", f"/runs/{UNKNOWN_ID}/stream"), ("POST", f"/runs/{UNKNOWN_ID}/cancel"),
        ("GET", f"/state/{UNKNOWN_ID}"),
    ],
)  # fmt: skip
async def test_unknown_thread_is_not_found_and_a_wrong_id_is_unprocessable(
    tmp_path: Path, method: str, path: str
) -> None:
    async with gateway(tmp_path) as client:
        for thread_id, status in ((UNKNOWN_ID, 404), ("no-uuid", 422)):
            response = await client.request(method, f"/threads/{thread_id}{path}", json={})
            assert response.status_code == status, response.text
            assert isinstance(response.json()["detail"], str)


async def test_metadata_is_merged_key_by_key(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread(metadata={"a": 1, "b": 1})
        patched = await client.patch(f"/threads/{thread_id}", json={"metadata": {"b": 2, "c": 3}})
        assert patched.json()["metadata"] == {"a": 1, "b": 2, "c": 3}
        minimal = await client.patch(
            f"/threads/{thread_id}", json={"metadata": {"d": 4}}, headers={"Prefer": "return=minimal"}
        )
        assert (minimal.status_code, minimal.content) == (204, b"")
        assert (await client.get(f"/threads/{thread_id}")).json()["metadata"]["d"] == 4


async def test_run_stamps_graph_and_assistant_on_its_thread(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        metadata = (await client.get(f"/threads/{thread_id}")).json()["metadata"]
        assert metadata["graph_id"] == "lead_agent"
        found = await client.post("/threads/search", json={"metadata": metadata})
        assert [thread["thread_id"] for thread in found.json()] == [thread_id]


async def test_search_pages_through_threads_with_their_states(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        ids = [await client.thread(metadata={"n": n}) for n in range(5)]
        await client.say(ids[4], "hello")
        first = await client.post("/threads/search", json={"limit": 2})
        assert [thread["thread_id"] for thread in first.json()] == ids[:2:-1]
        assert answer(first.json()[0]["values"]) == "echo: hello"
        assert (first.headers["x-pagination-total"], first.headers["x-pagination-next"]) == ("5", "2")
        last = await client.post("/threads/search", json={"limit": 2, "offset": 4})
        assert [thread["thread_id"] for thread in last.json()] == ids[:1]
        assert "x-pagination-next" not in last.headers
        assert (await client.post("/threads/count", json={"metadata": {"n": 3}})).json() == 1


async def test_search_gives_only_what_is_selected(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        found = await client.post("/threads/search", json={"select": ["thread_id", "status"]})
        assert found.json() == [{"thread_id": thread_id, "status": "idle"}]
        wrong = await client.post("/threads/search", json={"select": ["colour"]})
        assert wrong.status_code == 422
        assert "colour" in wrong.json()["detail"]


@pytest.mark.parametrize(
    "body", [{"limit": 0}, {"limit": 10_000}, {"offset": -1}, {"sort_by": "colour"}, {"values": [1]}]
)
async def test_search_refuses_what_it_cannot_do_and_names_the_field(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post("/threads/search", json=body)
        assert response.status_code == 422
        assert next(iter(body)) in response.json()["detail"]


async def test_deleting_a_thread_takes_runs_state_and_files_with_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "ask")
        workspace = client.host.config.workspace_path(thread_id)
        assert (workspace / "a.txt").exists()
        response = await client.delete(f"/threads/{thread_id}")
        assert (response.status_code, response.content) == (204, b"")
        assert (await client.get(f"/threads/{thread_id}")).status_code == 404
        assert not workspace.parent.exists()
        await client.thread(thread_id=thread_id)
        assert (await client.get(f"/threads/{thread_id}/state")).json()["values"] == {}


async def test_deleting_a_thread_ends_what_runs_on_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        run_ids = [await client.start(thread_id, "slow"), await client.start(thread_id, "slow")]
        runs = [client.host.runs.find(run_id) for run_id in run_ids]
        assert (await client.delete(f"/threads/{thread_id}")).status_code == 204
        assert [run is not None and run.ended.is_set() for run in runs] == [True, True]
        assert (await client.get(f"/threads/{thread_id}/runs/{run_ids[0]}/stream")).status_code == 404


async def test_copied_thread_goes_on_by_itself(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread(metadata={"topic": "rivers"})
        await client.say(thread_id, "one")
        twin = (await client.post(f"/threads/{thread_id}/copy")).json()
        assert twin["thread_id"] != thread_id
        assert twin["metadata"]["topic"] == "rivers"
        assert answer(twin["values"]) == "echo: one"
        await client.say(twin["thread_id"], "two")
        assert len(await _history(client, twin["thread_id"])) == len(await _history(client, thread_id)) + 3
        assert answer((await client.get(f"/threads/{thread_id}")).json()["values"]) == "echo: one"


async def test_copy_of_a_waiting_thread_waits_too(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "ask", context={"approve_tools": ["write_file"]})
        twin = (await client.post(f"/threads/{thread_id}/copy")).json()["thread_id"]
        resumed = await client.post(
            f"/threads/{twin}/runs/wait",
            json={
                "assistant_id": "lead_agent",
                "command": {"resume": {"decisions": [{"type": "approve"}]}},
                "context": {"approve_tools": ["write_file"]},
            },
        )
        assert answer(resumed.json()).startswith("written")
        assert (await client.get(f"/threads/{thread_id}")).json()["status"] == "interrupted"


async def test_pruning_removes_the_named_threads_alone(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        ids = [await client.thread() for _ in range(3)]
        pruned = await client.post("/threads/prune", json={"thread_ids": [*ids[:2], UNKNOWN_ID]})
        assert pruned.json() == {"pruned_count": 2}
        left = (await client.post("/threads/search", json={})).json()
        assert [thread["thread_id"] for thread in left] == [ids[2]]


async def _history(client: GatewayClient, thread_id: str) -> list[Any]:
    history: list[Any] = (await client.post(f"/threads/{thread_id}/history", json={"limit": 100})).json()
    return history


async def test_threads_are_found_by_what_their_states_hold(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        ids = [await client.thread(metadata={"n": n}) for n in range(4)]
        for thread_id, text in zip(ids, ("one", "two", "two"), strict=False):
            await client.say(thread_id, text)
        said_two: dict[str, Any] = {"values": {"messages": [{"type": "human", "content": "two"}]}}
        found = await client.post("/threads/search", json={**said_two, "limit": 1, "offset": 1})
        assert [thread["thread_id"] for thread in found.json()] == [ids[1]]
        assert (found.headers["x-pagination-total"], "x-pagination-next" in found.headers) == ("2", False)
        first = await client.post("/threads/search", json={**said_two, "limit": 1, "select": ["thread_id"]})
        assert (first.json(), first.headers["x-pagination-next"]) == ([{"thread_id": ids[2]}], "1")
        assert (await client.post("/threads/count", json=said_two)).json() == 2
        assert (await client.post("/threads/count", json={**said_two, "metadata": {"n": 1}})).json() == 1
        assert (await client.post("/threads/count", json={"values": {}})).json() == 4


async def test_states_of_too_many_threads_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_search, "MAX_STATES_READ", 2)
    async with gateway(tmp_path) as client:
        for n in range(3):
            await client.thread(metadata={"n": n})
        refused = await client.post("/threads/search", json={"values": {"a": 1}})
        assert refused.status_code == 422
        assert "narrow" in refused.json()["detail"]
        narrow = await client.post("/threads/search", json={"values": {"a": 1}, "metadata": {"n": 1}})
        assert narrow.json() == []


async def test_values_are_lifted_out_of_threads_by_paths(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        await client.say(await client.thread(metadata={"tags": ["a", "b"]}), "hello")
        messages = {"last": "values.messages[-1].content", "first": "values.messages[0].type"}
        metadata = {"tag": "metadata.tags[1]", "all": "metadata.tags"}
        missing = {"beyond": "values.messages[9]", "nothing": "config.x.y[0]", "none": "interrupts.z"}
        paths = messages | metadata | missing
        body = {"extract": paths, "select": ["status"]}
        (thread,) = (await client.post("/threads/search", json=body)).json()
        assert thread == {
            "status": "idle",
            "extracted": {
                "last": "echo: hello", "first": "human", "tag": "b", "all": ["a", "b"],
                "beyond": None, "nothing": None, "none": None,
            },
        }  # fmt: skip


@pytest.mark.parametrize(
    "extract",
    [
        *({"a": "thread_id"}, {"a": ""}, {"a": "values.__class__["}, {"a b": "values"}, {"1": "values"}),
        *({"a": "values[x]"}, {"a": "values..b"}, {"a": 1}, {f"a{n}": "values" for n in range(11)}),
    ],
)
async def test_senseless_paths_are_refused(tmp_path: Path, extract: Any) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post("/threads/search", json={"extract": extract})
        assert response.status_code == 422
        assert "extract" in response.json()["detail"]


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_pruning_to_the_newest_state_forgets_the_older_ones(tmp_path: Path, backend: str) -> None:
    async with gateway(tmp_path, [SLOW], database={"backend": backend}) as client:
        pruned, other, busy = [await client.thread() for _ in range(3)]
        for thread_id in (pruned, other):
            await client.say(thread_id, "hello")
        await client.start(busy, "slow")
        before = (await client.get(f"/threads/{pruned}/state")).json()
        body = {"thread_ids": [pruned, busy, UNKNOWN_ID], "strategy": "keep_latest"}
        assert (await client.post("/threads/prune", json=body)).json() == {"pruned_count": 1}
        after = (await client.get(f"/threads/{pruned}/state")).json()
        assert after["values"] == before["values"]
        assert (len(await _history(client, pruned)), len(await _history(client, other)) > 1) == (1, True)
        assert answer(await client.say(pruned, "again")) == "echo: again"


async def test_states_show_only_what_is_selected(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        path = f"/threads/{thread_id}"
        state = (await client.get(f"{path}/state")).json()
        part = (await client.get(f"{path}/state", params={"select": ["next", "values.messages"]})).json()
        assert part == {"next": [], "values": {"messages": state["values"]["messages"]}}
        none = (await client.get(f"{path}/state", params={"select": "values.nothing"})).json()
        assert none == {"values": {}}
        history = (await client.post(f"{path}/history", json={"select": ["created_at"]})).json()
        assert history[0] == {"created_at": state["created_at"]}
        body = {"checkpoint": state["checkpoint"], "select": ["checkpoint"]}
        at = await client.post(f"{path}/state/checkpoint", json=body)
        assert at.json() == {"checkpoint": state["checkpoint"]}
        assert (await client.get(f"{path}/state", params={"select": "colour"})).status_code == 422
