"""Every way in which a call can fail is a failure result, however it was called."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import StepBody, outcome, step_app

from axonx import BaseStep
from axonx.components.job import JobResponse


async def nothing(step: BaseStep) -> None: ...


async def raise_cancelled(step: BaseStep) -> None:
    raise asyncio.CancelledError


async def cancel_itself(step: BaseStep) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def raise_base_exception(step: BaseStep) -> None:
    class Odd(BaseException):
        pass

    raise Odd("odd")


async def raise_system_exit(step: BaseStep) -> None:
    raise SystemExit(3)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


async def raise_unprintable(step: BaseStep) -> None:
    raise Unprintable


async def raise_group(step: BaseStep) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0))
        raise ValueError("inside")


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (raise_cancelled, "CancelledError: "),
        (cancel_itself, "CancelledError: "),
        (raise_base_exception, "Odd: odd"),
        (raise_system_exit, "SystemExit: 3"),
        (raise_unprintable, "Unprintable: (its text cannot be printed)"),
        (raise_group, "ExceptionGroup: "),
    ],
)
async def test_whatever_a_step_raises_is_a_failure_result(
    tmp_path: Path, body: StepBody, answer: str
) -> None:
    async with step_app(tmp_path, body, nothing) as app:
        response = await outcome(app)
        assert not response.success
        assert response.answer.startswith(answer)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


def assigns(field: str, value: Any) -> StepBody:
    async def body(step: BaseStep) -> None:
        step.response.answer = "kept?"
        setattr(step.response, field, value)

    return body


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("field", "value", "part"),
    [
        ("answer", object(), "cannot be written as JSON"),
        ("answer", "\ud800", "cannot be written as JSON"),
        ("answer", CYCLE, "cannot be written as JSON"),
        ("answer", b"\xff", "cannot be written as JSON"),
        ("answer", iter([1]), "response.answer is a list_iterator"),
        ("metadata", "str", "response.metadata: Input should be a valid dictionary"),
        ("metadata", {1: 2}, "response.metadata"),
        ("metadata", {"lock": threading.Lock()}, "cannot be written as JSON"),
        ("success", "maybe", "response.success: Input should be a valid boolean"),
    ],
)
async def test_a_response_that_cannot_be_sent_is_a_failure(
    tmp_path: Path, field: str, value: Any, part: str
) -> None:
    async with step_app(tmp_path, assigns(field, value)) as app:
        response = await outcome(app)
    assert not response.success
    assert part in response.answer
    assert response.metadata == {}
    response.model_dump_json()


async def test_a_failure_survives_broken_metadata(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        step.response.metadata = "broken"  # type: ignore[assignment]
        raise LookupError("the reason")

    async with step_app(tmp_path, body) as app:
        assert await outcome(app) == JobResponse(answer="LookupError: the reason", success=False)


async def test_a_response_that_is_none_at_all_is_a_failure(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        step.response = {"answer": 1}  # type: ignore[assignment]

    async with step_app(tmp_path, body) as app:
        response = await outcome(app)
    assert not response.success
