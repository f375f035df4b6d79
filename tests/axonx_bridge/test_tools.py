"""A Job as a tool: what the model sees of it, what it may send, and what it gets back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool
from support.axonx_app import StepBody, step, step_app
from support.bridging import Caller, bridge, open_bridge, workspace_in
from support.loop_clock import put_forward

from axonx import Application, BaseJob, BaseStep, provider
from axonx.components.job import AgentMessageEvent, LogEvent, ProgressEvent, ResultEvent

CLOSED = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def answering(answer: Any) -> StepBody:
    async def body(self: BaseStep) -> None:
        self.response.answer = answer

    return body


async def echo(self: BaseStep) -> None:
    self.response.answer = dict(self.context)


async def test_the_models_schema_is_the_jobs_own(tmp_path: Path) -> None:
    parameters = {
        "type": "object",
        "properties": {"range": {"$ref": "#/$defs/range"}, "config": {"type": "string"}},
        "required": ["range"],
        "$defs": {"range": {"type": "object", "properties": {"from": {"type": "integer"}}}},
    }
    application = step_app(tmp_path, echo, job={"parameters": parameters, "description": "Echo it."})
    tool = bridge(application).tools["job"]
    function = convert_to_openai_tool(tool)["function"]
    assert (function["name"], function["description"]) == ("job", "Echo it.")
    assert function["parameters"]["properties"] == {
        "range": {"type": "object", "properties": {"from": {"type": "integer"}}},
        "config": {"type": "string"},
    }
    assert application.context.jobs["job"].parameters == parameters


async def test_a_job_without_parameters_or_description_is_a_tool_as_well(tmp_path: Path) -> None:
    application = step_app(tmp_path, echo, job={"parameters": {"type": "object"}})
    tool = bridge(application).tools["job"]
    assert tool.args == {}
    assert convert_to_openai_tool(tool)["function"]["description"] == "Run the Job 'job'."
    async with open_bridge(application) as opened:
        assert (await opened.call("job")).content == "{}"


@pytest.mark.parametrize(
    "name", ["config", "run_manager", "callbacks", "runtime", "arguments", "self", "call_id"]
)
async def test_a_parameter_may_have_any_name(tmp_path: Path, name: str) -> None:
    async with open_bridge(step_app(tmp_path, echo)) as opened:
        message = await opened.call("job", {name: "mine"}, Caller())
    assert json.loads(str(message.content)) == {name: "mine"}


async def test_arguments_that_do_not_fit_are_an_error_that_says_why(tmp_path: Path) -> None:
    async with open_bridge(step_app(tmp_path, echo, job={"parameters": CLOSED})) as opened:
        message = await opened.call("job", {"text": 3})
    assert message.status == "error"
    assert (
        message.content
        == "Job 'job' failed: Invalid arguments for job 'job': text: 3 is not of type 'string'"
    )


async def test_injected_parameters_are_neither_shown_nor_taken(tmp_path: Path) -> None:
    class Tenant(BaseStep):
        injected_parameters = {"tenant": {"type": "string", "default": "acme"}}

        async def execute(self) -> None:
            self.response.answer = self.context["tenant"]

    application = Application(
        providers=(provider("tenant")(Tenant),),
        workspace_dir=tmp_path,
        jobs={"job": {"steps": [{"backend": "tenant"}]}},
    )
    async with open_bridge(application) as opened:
        assert opened.tools["job"].args == {}
        forged = await opened.call("job", {"tenant": "evil"})
        honest = await opened.call("job")
    assert forged.status == "error" and "cannot be supplied by callers: tenant" in str(forged.content)
    assert honest.content == "acme"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("as it is", "as it is"),
        ({"rows": [1, None, True], "ä": "é"}, '{"rows":[1,null,true],"ä":"é"}'),
        ([float("inf")], "[null]"),
        ("", "Job 'job' is done; it has no answer."),
        (None, "Job 'job' is done; it has no answer."),
        (0, "0"),
        ("half \0 text", "half \ufffd text"),
    ],
)
async def test_an_answer_is_text_or_json(tmp_path: Path, answer: Any, text: str) -> None:
    async with open_bridge(step_app(tmp_path, answering(answer))) as opened:
        message = await opened.call("job")
    assert (message.content, message.status) == (text, "success")


async def test_metadata_go_to_clients_and_not_to_the_model(tmp_path: Path) -> None:
    async def body(self: BaseStep) -> None:
        self.response.metadata["rows"] = 3
        self.response.answer = "done"

    async with open_bridge(step_app(tmp_path, body)) as opened:
        message = await opened.call("job")
    assert message.content == "done"
    assert message.artifact == {"job": "job", "metadata": {"rows": 3}, "files": []}


async def test_metadata_that_would_swell_the_conversation_are_left_out(tmp_path: Path) -> None:
    async def body(self: BaseStep) -> None:
        self.response.metadata["rows"] = "x" * 60_000

    async with open_bridge(step_app(tmp_path, body)) as opened:
        message = await opened.call("job")
    assert message.artifact == {
        "job": "job",
        "metadata": {},
        "metadata_left_out_characters": 60_011,
        "files": [],
    }


async def test_an_answer_that_json_cannot_hold_is_an_error(tmp_path: Path) -> None:
    async with open_bridge(step_app(tmp_path, answering(object()))) as opened:
        message = await opened.call("job")
    assert message.status == "error"
    assert "cannot be written as JSON" in str(message.content)


async def test_a_failed_job_is_an_error_with_its_message(tmp_path: Path) -> None:
    async def raising(self: BaseStep) -> None:
        raise LookupError("no such table")

    async def giving_up(self: BaseStep) -> None:
        self.response.success = False

    for body, text in ((raising, "LookupError: no such table"), (giving_up, "it gave no reason")):
        async with open_bridge(step_app(tmp_path, body)) as opened:
            message = await opened.call("job")
        assert (message.status, message.content) == ("error", f"Job 'job' failed: {text}")


async def test_every_kind_of_event_reaches_the_stream_in_order(tmp_path: Path) -> None:
    async def body(self: BaseStep) -> None:
        await self.emit(ProgressEvent(name="load", percentage=50, state="running"))
        await self.emit(LogEvent(content="a line"))
        await self.emit(AgentMessageEvent(session_id="s", type_name="note"))
        await self.emit(ProgressEvent(name="load", percentage=100, state="done"))

    caller = Caller()
    async with open_bridge(step_app(tmp_path, body)) as opened:
        await opened.call("job", {}, caller, "call-9")
    common = {"job": "job", "tool_call_id": "call-9"}
    assert caller.events == [
        {"type": "axonx_progress", **common, "name": "load", "percentage": 50.0, "state": "running"},
        {"type": "axonx_log", **common, "content": "a line"},
        {"type": "axonx_agent_message", **common, "session_id": "s", "type_name": "note"},
        {"type": "axonx_progress", **common, "name": "load", "percentage": 100.0, "state": "done"},
    ]


async def test_a_stream_that_is_gone_costs_the_job_nothing(tmp_path: Path) -> None:
    async def body(self: BaseStep) -> None:
        await self.emit(ProgressEvent(name="load"))
        self.response.answer = "done"

    class Deaf(Caller):
        def runtime(self, call_id: str) -> Any:
            runtime = super().runtime(call_id)
            runtime.stream_writer = lambda payload: 1 / 0
            return runtime

    async with open_bridge(step_app(tmp_path, body)) as opened:
        assert (await opened.call("job", {}, Deaf())).content == "done"


async def test_a_job_without_stream_is_called_all_the_same(tmp_path: Path) -> None:
    async with open_bridge(step_app(tmp_path, answering("done"), job={"enable_stream": False})) as opened:
        assert (await opened.call("job", {}, Caller())).content == "done"


async def test_a_job_with_a_stream_of_its_own_is_a_tool(tmp_path: Path) -> None:
    @provider("countdown")
    class Countdown(BaseJob):
        async def stream(self, arguments: dict[str, Any], system: dict[str, Any]) -> AsyncIterator[Any]:
            yield ProgressEvent(name="countdown", completed=1)
            yield ResultEvent(answer="lift-off")

    application = Application(
        providers=(Countdown,), workspace_dir=tmp_path, jobs={"launch": {"backend": "countdown"}}
    )
    caller = Caller()
    async with open_bridge(application) as opened:
        assert (await opened.call("launch", {}, caller)).content == "lift-off"
    assert [event["completed"] for event in caller.events] == [1]


async def test_a_job_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def body(self: BaseStep) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    async with open_bridge(step_app(tmp_path, body), timeout_seconds=60) as opened:
        call = asyncio.create_task(opened.call("job"))
        await begun.wait()
        put_forward(asyncio.get_running_loop(), 60)
        message = await call
        assert left.is_set()
    assert (message.status, message.content) == ("error", "Job 'job' failed: no result within 60.0 s")


async def test_a_step_that_times_out_by_itself_is_not_mistaken_for_the_limit(tmp_path: Path) -> None:
    async def body(self: BaseStep) -> None:
        raise TimeoutError("the table did not answer")

    async with open_bridge(step_app(tmp_path, body), timeout_seconds=60) as opened:
        message = await opened.call("job")
    assert message.content == "Job 'job' failed: TimeoutError: the table did not answer"


async def test_depth_is_passed_to_jobs_that_declare_it(tmp_path: Path) -> None:
    deep = step(echo, "deep")
    deep.injected_parameters = {"agent_depth": {"type": "integer", "minimum": 0, "default": 0}}
    jobs = {"deep": {"steps": [{"backend": "deep"}]}, "flat": {"steps": [{"backend": "flat"}]}}
    application = Application(providers=(deep, step(echo, "flat")), workspace_dir=tmp_path, jobs=jobs)
    lead, subagent = Caller(workspace_in(tmp_path)), Caller(workspace_in(tmp_path), "subagent")
    async with open_bridge(application) as opened:
        assert (await opened.call("deep", {}, lead)).content == '{"agent_depth":1}'
        assert (await opened.call("deep", {}, subagent)).content == '{"agent_depth":2}'
        assert (await opened.call("flat", {}, subagent)).content == "{}"
        assert (await opened.call("deep", {"agent_depth": 0}, lead)).status == "error"
