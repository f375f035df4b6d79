"""What a client does when a person edits what was said, or asks for another answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from deerflow_extension_api.provenance import PROVENANCE_KEYS
from support.gateways import SLOW, GatewayClient, gateway, said


def _texts(values: Any) -> list[str]:
    return [message["content"] for message in values["messages"]]


async def _before(client: GatewayClient, thread_id: str, kind: str, text: str) -> Any:
    """The checkpoint right before the newest message of this kind and text came, as clients find it."""
    history = (await client.post(f"/threads/{thread_id}/history", json={"limit": 100})).json()

    def shows(state: Any) -> bool:
        messages = state["values"].get("messages", ())
        return any((message["type"], message["content"]) == (kind, text) for message in messages)

    first_seen = [state for state in history if shows(state)][-1]
    return first_seen["parent_checkpoint"]


async def test_the_only_turn_can_be_edited(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "helo")
        checkpoint = await _before(client, thread_id, "human", "helo")
        assert _texts(await client.say(thread_id, "hello", checkpoint=checkpoint)) == ["hello", "echo: hello"]
        assert _texts(await client.say(thread_id, "more")) == ["hello", "echo: hello", "more", "echo: more"]


async def test_a_later_turn_can_be_edited(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        for text in ("one", "tow", "three"):
            await client.say(thread_id, text)
        checkpoint = await _before(client, thread_id, "human", "tow")
        edited = await client.say(thread_id, "two", checkpoint=checkpoint)
        assert _texts(edited) == ["one", "echo: one", "two", "echo: two"]


async def test_an_answer_can_be_made_anew_and_stands_there_once(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        first = await client.say(thread_id, "hello")
        checkpoint = await _before(client, thread_id, "ai", "echo: hello")
        body = {**said("hello", checkpoint=checkpoint), "input": None}
        again = (await client.post(f"/threads/{thread_id}/runs/wait", json=body)).json()
        assert _texts(again) == ["hello", "echo: hello"]
        assert first["messages"][0]["id"] == again["messages"][0]["id"]
        assert first["messages"][1]["id"] != again["messages"][1]["id"]


async def test_an_answer_that_was_stopped_can_be_made_anew(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        run_id = await client.start(thread_id, "slow")
        async with asyncio.timeout(20):
            while (await client.get(f"/threads/{thread_id}/state")).json()["next"] != ["model"]:
                await asyncio.sleep(0.01)
        await client.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1")
        checkpoint = await _before(client, thread_id, "human", "slow")
        edited = await client.say(thread_id, "quick", checkpoint=checkpoint)
        assert _texts(edited) == ["hello", "echo: hello", "quick", "echo: quick"]


async def test_messages_that_replace_all_others_are_stored_as_messages(tmp_path: Path) -> None:
    marked = {"role": "user", "content": "new", "additional_kwargs": dict.fromkeys(PROVENANCE_KEYS, "tool")}
    async with gateway(tmp_path) as client:
        for texts in ([], ["hello"]):
            thread_id = await client.thread()
            for text in texts:
                await client.say(thread_id, text)
            update = {"values": {"messages": {"__overwrite__": [marked]}}, "as_node": "model"}
            response = await client.post(f"/threads/{thread_id}/state", json=update)
            assert response.status_code == 200, response.text
            values = (await client.get(f"/threads/{thread_id}/state")).json()["values"]
            assert _texts(values) == ["new"]
            assert not PROVENANCE_KEYS & values["messages"][0].get("additional_kwargs", {}).keys()
            assert _texts(await client.say(thread_id, "hello")) == ["new", "hello", "echo: hello"]
