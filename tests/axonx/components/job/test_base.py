"""Jobs with a stream of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import step_app

from axonx import Application, BaseJob, BaseStep, PipelineJob, provider
from axonx.components.job import JobEvent, JobResponse, LogEvent, ResultEvent, fold_events

Stream = Callable[[dict[str, Any]], AsyncIterator[Any]]


def custom_app(tmp_path: Path, stream: Stream, **entry: Any) -> Application:
    @provider("custom")
    class Custom(BaseJob):
        def _injected_parameters(self) -> Mapping[str, Mapping[str, Any]]:
            return {"tenant": {"type": "string"}}

        def stream(self, arguments: dict[str, Any], system: dict[str, Any]) -> AsyncIterator[JobEvent]:
            return stream({**arguments, **system})

    return Application(
        providers=(Custom,), workspace_dir=tmp_path, jobs={"job": {"backend": "custom", **entry}}
    )


async def both(app: Application, arguments: Any = None) -> tuple[JobResponse, list[str]]:
    """The response, agreed on by both ways to call, and the kinds of the stream's events."""
    async with app:
        response = await app.run_job("job", arguments)
        events = [event async for event in app.stream_job("job", arguments)]
        assert await fold_events(events) == response
        return response, [event.kind for event in events]


async def test_the_last_result_counts_and_comes_last(tmp_path: Path) -> None:
    async def stream(values: dict[str, Any]) -> AsyncIterator[Any]:
        yield ResultEvent(answer="first")
        yield LogEvent()
        yield ResultEvent(answer=values["text"], metadata={"a": 1})

    response, kinds = await both(custom_app(tmp_path, stream), {"text": "x"})
    assert response == JobResponse(answer="x", metadata={"a": 1})
    assert kinds == ["log", "result"]


async def test_a_stream_without_result_is_a_failure(tmp_path: Path) -> None:
    async def stream(values: dict[str, Any]) -> AsyncIterator[Any]:
        yield LogEvent()

    response, kinds = await both(custom_app(tmp_path, stream))
    assert response == JobResponse(answer="Stream produced no terminal result", success=False)
    assert kinds == ["log", "result"]


async def test_an_exception_of_the_stream_is_a_failure_result(tmp_path: Path) -> None:
    async def stream(values: dict[str, Any]) -> AsyncIterator[Any]:
        yield ResultEvent(answer="never mind")
        raise LookupError("gone")

    response, kinds = await both(custom_app(tmp_path, stream))
    assert response == JobResponse(answer="LookupError: gone", success=False)
    assert kinds == ["result"]


@pytest.mark.parametrize("event", ["text", {"kind": "log"}, None])
async def test_what_is_no_event_is_a_failure_result(tmp_path: Path, event: Any) -> None:
    async def stream(values: dict[str, Any]) -> AsyncIterator[Any]:
        yield event

    response, kinds = await both(custom_app(tmp_path, stream))
    assert not response.success
    assert "InvalidEventError" in response.answer
    assert kinds == ["result"]


@pytest.mark.parametrize("returned", [[], None])
async def test_a_stream_that_is_no_async_iterator_is_a_failure_result(tmp_path: Path, returned: Any) -> None:
    response, kinds = await both(custom_app(tmp_path, lambda values: returned))
    assert "Custom.stream must be an async generator" in response.answer
    assert kinds == ["result"]


async def test_a_coroutine_instead_of_a_stream_is_a_failure_result(tmp_path: Path) -> None:
    async def no_stream(values: dict[str, Any]) -> None: ...

    response, _ = await both(custom_app(tmp_path, no_stream))  # type: ignore[arg-type]
    assert "it returned coroutine" in response.answer


async def test_an_iterator_without_aclose_is_read_as_well(tmp_path: Path) -> None:
    class Once:
        done = False

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> ResultEvent:
            if self.done:
                raise StopAsyncIteration
            self.done = True
            return ResultEvent(answer=1)

    response, _ = await both(custom_app(tmp_path, lambda values: Once()))
    assert response.answer == 1


async def test_arguments_are_checked_like_a_pipelines(tmp_path: Path) -> None:
    async def stream(values: dict[str, Any]) -> AsyncIterator[Any]:
        values["bag"].append(1)
        yield ResultEvent(answer=values)

    parameters = {"type": "object", "properties": {"bag": {"type": "array"}}, "required": ["bag"]}
    async with custom_app(tmp_path, stream, parameters=parameters) as app:
        with pytest.raises(ValueError, match="'bag' is a required property"):
            await app.run_job("job")
        with pytest.raises(ValueError, match="System-owned arguments cannot be supplied by callers: tenant"):
            app.stream_job("job", {"bag": [], "tenant": "x"})
        bag: list[int] = []
        response = await app.context.dispatcher.run("job", {"bag": bag}, system={"tenant": "x"})
        assert response.answer == {"bag": [1], "tenant": "x"}
        assert bag == []


def test_options_that_only_pipelines_have_are_refused(tmp_path: Path) -> None:
    async def stream(values: dict[str, Any]) -> AsyncIterator[Any]:
        yield ResultEvent()

    with pytest.raises(ValueError, match=r"jobs\.job: .*Custom does not take 'steps'"):
        custom_app(tmp_path, stream, steps=[])


async def test_a_pipeline_may_wrap_its_own_stream(tmp_path: Path) -> None:
    @provider("wrapped")
    class Wrapped(PipelineJob):
        async def stream(self, arguments: Any, system: Any = None) -> AsyncIterator[JobEvent]:  # type: ignore[override]
            yield LogEvent(content="before")
            async for event in super().stream(arguments, system):
                yield event

    async def body(step: BaseStep) -> None:
        step.response.answer = step.context["text"]

    inner = step_app(tmp_path, body).context.registry.get("step", "step0")
    app = Application(
        providers=(Wrapped, inner),
        workspace_dir=tmp_path,
        jobs={"job": {"backend": "wrapped", "steps": [{"backend": "step0"}]}},
    )
    response, kinds = await both(app, {"text": "x"})
    assert response.answer == "x"
    assert kinds == ["log", "result"]


async def test_fold_events_reads_streams_and_lists(tmp_path: Path) -> None:
    assert (await fold_events([])).answer == "Stream produced no terminal result"
    assert await fold_events([LogEvent(), ResultEvent(answer=1), LogEvent()]) == JobResponse(answer=1)
    async with Application(workspace_dir=tmp_path, jobs={"job": {}}) as app:
        assert await fold_events(app.stream_job("job")) == JobResponse()
