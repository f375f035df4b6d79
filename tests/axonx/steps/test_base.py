"""Steps outside of a call, as their own unit tests build them."""

from __future__ import annotations

import pytest

from axonx import BaseComponent, BaseStep
from axonx.components.base import ComponentBase
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


def test_a_step_is_bound_to_an_application_without_being_a_component() -> None:
    assert issubclass(BaseStep, ComponentBase)
    assert not issubclass(BaseStep, BaseComponent)
    assert not hasattr(Shout(), "start")
