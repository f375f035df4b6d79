"""Steps outside of a call, as their own unit tests build them."""

from __future__ import annotations

import pytest

from axonx import BaseStep
from axonx.components.job import JobResponse, LogEvent, RuntimeContext
from axonx.errors import InvalidEventError


class Shout(BaseStep):
    async def execute(self) -> None:
        await self.emit(LogEvent(content="shouting"))
        self.response.answer = self.context["text"].upper()


async def test_a_step_can_be_tried_by_hand() -> None:
    step = Shout()
    step.context, step.response = RuntimeContext(text="hi"), JobResponse()
    await step.execute()
    assert step.response.answer == "HI"
    with pytest.raises(InvalidEventError, match="not str"):
        await step.emit("text")  # type: ignore[arg-type]


def test_a_step_must_execute() -> None:
    with pytest.raises(TypeError, match="execute"):
        BaseStep()  # type: ignore[abstract]
