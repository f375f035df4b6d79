"""From start to close: what fails late, what is left running, and what it costs the event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from support.axonx_app import Recorder, recorder, recorder_app, step_app

from axonx import Application, BaseComponent, BaseJob, BaseScheduler, BaseService, BaseStep, provider
from axonx.components.job import ArtifactEvent


async def test_start_calls_and_close_never_block_the_event_loop(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        step.logger.info("a line")
        await step.emit(ArtifactEvent(path="a/b"))

    log: list[str] = []
    logs = {"log_to_file": True, "log_to_console": True, "log_dir": tmp_path / "logs"}
    app = step_app(tmp_path / "deep" / "workspace", body, **logs)
    recorders = recorder_app(tmp_path, log, {"a": {}, "b": {"needs": "a"}})
    with blockbuster_ctx():
        async with app, recorders:
            assert (await app.run_job("job")).success
            assert [event.kind async for event in app.stream_job("job")] == ["artifact", "result"]
    assert log == ["start a", "start b", "close b", "close a"]


class Pump(Recorder):
    """Opens a task before its start fails."""

    async def _start(self) -> None:
        self.pump = asyncio.create_task(asyncio.Event().wait())
        await super()._start()

    async def _close(self) -> None:
        self.pump.cancel()
        await asyncio.wait({self.pump})
        await super()._close()


async def test_a_part_opened_by_the_start_that_failed_is_released_before_the_others_close(
    tmp_path: Path,
) -> None:
    log: list[str] = []
    error = OSError("half open")
    components = {
        "recorder": {
            "a": {"backend": "recorder"},
            "b": {"backend": "recorder", "needs": "a"},
            "c": {"backend": "recorder", "needs": "b"},
            "d": {"backend": "pump", "needs": "c", "start_error": error},
            "e": {"backend": "recorder", "needs": "d"},
        }
    }
    pump = provider("pump")(type("LoggedPump", (Pump,), {"log": log}))
    app = Application(providers=(recorder(log), pump), workspace_dir=tmp_path, components=components)
    before = asyncio.all_tasks()
    with pytest.raises(OSError) as caught:
        await app.start()
    assert caught.value is error
    assert log == [*(f"start {name}" for name in "abcd"), *(f"close {name}" for name in "dcba")]
    assert asyncio.all_tasks() == before
    await app.close()
    assert len(log) == 8
    failing = app.context.component("recorder", "d")
    assert isinstance(failing, Recorder)
    failing.start_error = None
    async with app:
        assert log[8:] == [f"start {name}" for name in "abcde"]
    assert asyncio.all_tasks() == before


LATE: dict[str, tuple[type[BaseComponent], dict[str, Any]]] = {
    "job": (BaseJob, {"jobs": {"late": {"backend": "late"}}}),
    "scheduler": (BaseScheduler, {"schedules": {"late": {"backend": "late", "job": "demo"}}}),
    "service": (BaseService, {"service": {"backend": "late"}}),
}


@pytest.mark.parametrize("kind", LATE)
async def test_when_what_starts_late_fails_everything_is_closed(tmp_path: Path, kind: str) -> None:
    log: list[str] = []
    base, config = LATE[kind]

    async def start(self: BaseComponent) -> None:
        log.append("start late")
        raise LookupError("late")

    async def close(self: BaseComponent) -> None:
        log.append("close late")

    members = {"_start": start, "_close": close, "stream": lambda self, arguments, system: None}
    late = provider("late")(type("Late", (base,), members))
    demo = {"demo": {"steps": [{"backend": "demo_step"}]}}
    app = Application(
        providers=(recorder(log), late),
        workspace_dir=tmp_path,
        components={"recorder": {name: {"backend": "recorder"} for name in "ab"}},
        **{"jobs": demo, **config},
    )
    before = asyncio.all_tasks()
    with pytest.raises(LookupError, match="late"):
        await app.start()
    assert log == ["start a", "start b", "start late", "close late", "close b", "close a"]
    assert asyncio.all_tasks() == before
    assert not app.is_started
    with pytest.raises(RuntimeError, match="Application is not running"):
        await app.run_job("demo")
