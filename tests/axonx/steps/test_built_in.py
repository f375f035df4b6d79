"""The Steps that come with AxonX."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import axonx
from axonx import Application, BaseAgentComponent, provider
from axonx.components.job import AgentBlockPatch, AgentMessageEvent, JobCatalog, JobResponse


def built_in_app(tmp_path: Path, *steps: str) -> Application:
    jobs = {name: {"description": f"About {name}.", "steps": [{"backend": name}]} for name in steps}
    return Application(workspace_dir=tmp_path, jobs=jobs)


async def test_version_and_demo(tmp_path: Path) -> None:
    async with built_in_app(tmp_path, "version_step", "demo_step") as app:
        assert (await app.run_job("version_step")).answer == axonx.__version__
        assert (await app.run_job("demo_step", {"name": "you"})).answer == "Hello, you!"
        kinds = [event.kind async for event in app.stream_job("demo_step")]
    assert kinds == ["progress", "progress", "result"]


async def test_help_lists_the_served_jobs_with_their_schemas(tmp_path: Path) -> None:
    app = Application(
        workspace_dir=tmp_path,
        jobs={
            "help": {"steps": [{"backend": "help_step"}], "description": "Jobs."},
            "hidden": {"enable_serve": False},
        },
    )
    async with app:
        response = await app.run_job("help")
    catalog = JobCatalog.model_validate(response.answer)
    assert catalog.total == 1
    assert catalog.items[0].name == "help"
    assert catalog.items[0].description == "Jobs."
    assert catalog.items[0].input_schema == {"type": "object", "properties": {}}
    assert set(catalog.items[0].output_schema["properties"]) == {"answer", "success", "metadata"}


@provider("echo")
class EchoAgent(BaseAgentComponent):
    async def stream(
        self, prompt: str, *, session_id: str | None = None, agent_depth: int = 0
    ) -> AsyncIterator[AgentMessageEvent]:
        for operation, delta in (
            ("start", ""),
            ("append", prompt),
            ("append", f" {agent_depth}"),
            ("finish", ""),
        ):
            patch = AgentBlockPatch(operation=operation, block_id="1", block_type="text", delta=delta)  # type: ignore[arg-type]
            yield AgentMessageEvent(session_id=session_id or "new", presentation=[patch])


def agent_app(tmp_path: Path) -> Application:
    return Application(
        providers=(EchoAgent,),
        workspace_dir=tmp_path,
        components={"agent": {"default": {"backend": "echo"}}},
        jobs={"ask": {"steps": [{"backend": "agent_stream"}]}},
    )


async def test_an_agents_messages_are_events_and_its_text_the_answer(tmp_path: Path) -> None:
    async with agent_app(tmp_path) as app:
        events = [event async for event in app.stream_job("ask", {"prompt": "hi", "session_id": "s"})]
    assert [event.kind for event in events] == ["agent_message"] * 4 + ["result"]
    assert events[0].session_id == "s"  # type: ignore[union-attr]
    assert events[-1].answer == "hi 0"  # type: ignore[union-attr]


@pytest.mark.parametrize("depth", [0, 2, 3, 4])
async def test_agents_may_call_agents_three_deep(tmp_path: Path, depth: int) -> None:
    async with agent_app(tmp_path) as app:
        response = await app.context.dispatcher.run("ask", {"prompt": "hi"}, system={"agent_depth": depth})
        with pytest.raises(
            ValueError, match="System-owned arguments cannot be supplied by callers: agent_depth"
        ):
            await app.run_job("ask", {"prompt": "hi", "agent_depth": 0})
    if depth < 3:
        assert response.answer == f"hi {depth}"
    else:
        assert response == JobResponse(success=False, answer="Agent call chain is limited to 3 nested turns.")
