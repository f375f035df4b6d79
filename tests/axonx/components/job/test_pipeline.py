"""What a call of a PipelineJob does, answers and refuses."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import outcome, step, step_app

from axonx import Application, BaseStep, provider
from axonx.components.job import JobResponse, ProgressEvent, RuntimeContext
from axonx.errors import (
    ArgumentsTypeError,
    InvalidArgumentsError,
    StreamingNotSupportedError,
    UnknownJobError,
)

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


async def answer_text(step: BaseStep) -> None:
    step.response.answer = step.context["text"]


async def nothing(step: BaseStep) -> None: ...


async def test_an_empty_pipeline_succeeds_with_an_empty_answer(tmp_path: Path) -> None:
    async with Application(workspace_dir=tmp_path, jobs={"job": {}}) as app:
        assert await outcome(app) == JobResponse(answer="", success=True, metadata={})


async def test_steps_share_context_and_response_in_order(tmp_path: Path) -> None:
    async def first(step: BaseStep) -> None:
        step.context["seen"] = [step.context["text"]]
        step.response.metadata["first"] = True

    async def second(step: BaseStep) -> None:
        step.response.answer = step.context["seen"]

    async with step_app(tmp_path, first, second) as app:
        response = await outcome(app, {"text": "x"})
    assert response.model_dump(mode="json") == {"answer": ["x"], "success": True, "metadata": {"first": True}}
    assert list(response.model_dump()) == ["answer", "success", "metadata"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Invalid arguments for job 'job': 'text' is a required property"),
        ({"text": 1}, "Invalid arguments for job 'job': text: 1 is not of type 'string'"),
        ({"text": "", "x": 1}, r"Additional properties are not allowed \('x' was unexpected\)"),
        ({"text": "", "_axonx_argv": []}, "Reserved Job argument: _axonx_argv"),
        ([1], "expected a mapping of names to values, not list"),
        ({1: 2}, "Dict key must be str"),
    ],
)
async def test_arguments_that_do_not_fit_raise_before_a_call_exists(
    tmp_path: Path, arguments: Any, message: str
) -> None:
    async with step_app(tmp_path, answer_text, job={"parameters": TEXT}) as app:
        with pytest.raises(InvalidArgumentsError, match=message):
            await app.run_job("job", arguments)
        with pytest.raises(ValueError, match=message):
            app.stream_job("job", arguments)


async def test_arguments_of_another_type_are_a_type_error_as_well(tmp_path: Path) -> None:
    async with step_app(tmp_path, answer_text) as app:
        with pytest.raises(ArgumentsTypeError) as caught:
            await app.run_job("job", 3)
        assert isinstance(caught.value, TypeError)
        assert (await app.run_job("job", [("text", "pairs are fine")])).answer == "pairs are fine"


async def test_an_unknown_job_lists_the_known_ones(tmp_path: Path) -> None:
    async with step_app(tmp_path, nothing) as app:
        with pytest.raises(UnknownJobError, match=r"Unknown job: 'nope' \(configured: job\)"):
            await app.run_job("nope")
        with pytest.raises(ValueError, match="Unknown job: 'nope'"):
            app.stream_job("nope")


async def test_streaming_can_be_switched_off(tmp_path: Path) -> None:
    async with step_app(tmp_path, nothing, job={"enable_stream": False}) as app:
        with pytest.raises(StreamingNotSupportedError, match="Job 'job' does not support streaming"):
            app.stream_job("job")
        assert (await app.run_job("job")).success


async def test_defaults_reach_the_context_but_satisfy_no_schema(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        step.response.answer = dict(step.context)

    job = {
        "parameters": {**TEXT, "properties": {"text": {"type": "string", "default": "unused"}}},
        "defaults": {"text": "default", "mode": {"a": 1, "b": [1]}},
    }
    async with step_app(tmp_path, body, job=job) as app:
        with pytest.raises(ValueError, match="'text' is a required property"):
            await app.run_job("job")
        response = await outcome(app, {"text": "given"})
    assert response.answer == {"text": "given", "mode": {"a": 1, "b": [1]}}


async def test_no_call_sees_what_another_one_changed(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        step.context["bag"].append(1)
        step.kwargs["tags"].append(1)
        await asyncio.sleep(0)
        step.response.answer = [*step.context["bag"], *step.kwargs["tags"], hasattr(step, "mark")]
        step.mark = True  # type: ignore[attr-defined]
        step.context["given"]["inner"].append(1)

    cls = step(body)
    cls.accepts_extra_options = True
    config = {
        "defaults": {"bag": []},
        "steps": [{"backend": "step", "tags": []}],
    }
    given: dict[str, Any] = {"given": {"inner": []}}
    async with Application(providers=(cls,), workspace_dir=tmp_path, jobs={"job": config}) as app:
        responses = await asyncio.gather(*(app.run_job("job", given) for _ in range(20)))
        responses.append(await app.run_job("job", given))
    assert [response.answer for response in responses] == [[1, 1, False]] * 21
    assert config == {"defaults": {"bag": []}, "steps": [{"backend": "step", "tags": []}]}
    assert given == {"given": {"inner": []}}


async def test_changing_the_arguments_after_the_call_changes_nothing(tmp_path: Path) -> None:
    arguments = {"text": "before"}
    async with step_app(tmp_path, answer_text) as app:
        stream = app.stream_job("job", arguments)
        arguments["text"] = "after"
        assert [event.answer async for event in stream] == ["before"]  # type: ignore[union-attr]


async def test_a_failing_step_ends_the_call_and_keeps_the_metadata(tmp_path: Path) -> None:
    async def fails(step: BaseStep) -> None:
        step.response.answer = "partial"
        step.response.metadata["done"] = 1
        await step.emit(ProgressEvent(name="before"))
        raise LookupError("gone")

    async def never(step: BaseStep) -> None:
        step.response.metadata["never"] = 1

    async with step_app(tmp_path, fails, never) as app:
        events = [event async for event in app.stream_job("job")]
        response = await outcome(app)
    assert response == JobResponse(answer="LookupError: gone", success=False, metadata={"done": 1})
    assert [event.kind for event in events] == ["progress", "result"]


async def test_success_false_skips_the_remaining_steps(tmp_path: Path) -> None:
    async def refuses(step: BaseStep) -> None:
        step.response.answer, step.response.success = "no", False

    async def never(step: BaseStep) -> None:
        step.response.answer = "never"

    async with step_app(tmp_path, refuses, never) as app:
        assert await outcome(app) == JobResponse(answer="no", success=False)


async def test_a_step_may_replace_its_response(tmp_path: Path) -> None:
    async def replaces(step: BaseStep) -> None:
        step.response = JobResponse(answer="mine")

    async with step_app(tmp_path, replaces, nothing) as app:
        assert (await outcome(app)).answer == "mine"


async def test_an_argument_that_cannot_be_copied_is_a_failure_result(tmp_path: Path) -> None:
    async with step_app(tmp_path, nothing) as app:
        response = await outcome(app, {"lock": threading.Lock()})
    assert not response.success
    assert response.answer.startswith("TypeError: cannot pickle")


async def test_an_execute_that_is_not_async_is_a_failure_result(tmp_path: Path) -> None:
    @provider("sync")
    class Sync(BaseStep):
        def execute(self) -> None:  # type: ignore[override]
            self.response.answer = "done"

    async with Application(
        providers=(Sync,), workspace_dir=tmp_path, jobs={"job": {"steps": [{"backend": "sync"}]}}
    ) as app:
        response = await outcome(app)
    assert not response.success
    assert "Sync.execute must be 'async def'" in response.answer


async def test_each_call_builds_new_steps_when_their_turn_comes(tmp_path: Path) -> None:
    built: list[int] = []

    @provider("counted")
    class Counted(BaseStep):
        def __init__(self, fail_at: int = 99, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            built.append(fail_at)
            if len(built) == fail_at:
                raise OSError("at construction")

        async def execute(self) -> None:
            built.append(-1)

    steps = [{"backend": "counted"}, {"backend": "counted", "fail_at": 5}, {"backend": "counted"}]
    async with Application(
        providers=(Counted,), workspace_dir=tmp_path, jobs={"job": {"steps": steps}}
    ) as app:
        assert built == [99, 5, 99]
        built.pop()
        response = await app.run_job("job")
        assert response.answer == "OSError: at construction"
        assert built == [99, 5, 99, -1, 5]
        assert (await app.run_job("job")).success
    assert built[5:] == [99, -1, 5, -1, 99, -1]


def test_a_step_with_a_wrong_option_fails_in_the_constructor(tmp_path: Path) -> None:
    jobs = {"job": {"steps": [{"backend": "demo_step", "nmae": "x"}]}}
    with pytest.raises(ValueError, match=r"jobs\.job\.steps\.0 \(demo_step\): DemoStep does not take 'nmae'"):
        Application(workspace_dir=tmp_path, jobs=jobs)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"event_bufer_size": 3},
            r"jobs\.job: PipelineJob does not take 'event_bufer_size'.*'event_buffer_size'",
        ),
        ({"event_buffer_size": 0}, "event_buffer_size must be a positive integer"),
        ({"event_buffer_size": True}, "event_buffer_size must be a positive integer"),
        ({"event_buffer_size": "64"}, "event_buffer_size must be a positive integer"),
        ({"steps": [{"backend": "nope"}]}, "Unknown step backend: nope"),
        ({"parameters": {"type": "array"}}, "job parameters must describe a JSON object"),
        (
            {"parameters": {"type": "object", "properties": {"a": {"type": "strin"}}}},
            "Invalid Job parameters schema",
        ),
        (
            {"parameters": {"type": "object", "properties": {"target": {}}}},
            "'target' is reserved for transport targeting",
        ),
        (
            {"parameters": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/a"}}}},
            "schemas are not fetched",
        ),
    ],
)
def test_a_job_that_cannot_work_fails_in_the_constructor(
    tmp_path: Path, entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Application(workspace_dir=tmp_path, jobs={"job": entry})


async def test_an_open_schema_accepts_anything_even_a_target(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        assert isinstance(step.context, RuntimeContext)
        step.response.answer = sorted(step.context)

    async with step_app(tmp_path, body) as app:
        assert (await outcome(app, {"target": 1, "any": [object]})).answer == ["any", "target"]


async def test_the_signature_of_a_call_does_not_leak_into_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with step_app(tmp_path, answer_text) as app:
        await app.run_job("job", {"text": "s3cret"})
    assert "s3cret" not in caplog.text
