"""What a Step is given: in a call by its application, outside of one by its own unit test."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.axonx_app import recorder, step

from axonx import Application, BaseComponent, BaseStep
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


async def test_a_step_finds_the_started_components_of_its_application(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        found = [step.get_component("recorder"), step.get_component("recorder", "other")]
        step.response.answer = [[each.name, each.is_started] for each in found]
        step.response.metadata["workspace"] = str(step.workspace_path)

    app = Application(
        providers=(recorder([]), step(body)),
        workspace_dir=tmp_path,
        components={"recorder": {name: {"backend": "recorder"} for name in ("default", "other")}},
        jobs={"job": {"steps": [{"backend": "step"}]}},
    )
    async with app:
        response = await app.run_job("job")
    assert response.answer == [["default", True], ["other", True]]
    assert response.metadata == {"workspace": str(tmp_path)}
