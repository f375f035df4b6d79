"""A misbehaving extension changes nothing for the run and for its neighbours."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from support.extensions import FAULTS, Misbehaving, Seen, installed, recording
from support.hosts import DELEGATE_TWICE, answer, finished, scripted_host

from deerflow.extensions import dispatch


@pytest.fixture(autouse=True)
def _short_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    original = dispatch.Notification.__init__

    def shortened(self: dispatch.Notification, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)
        object.__setattr__(self, "budget_seconds", 0.15)

    monkeypatch.setattr(dispatch.Notification, "__init__", shortened)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("hook", ["on_task_start", "on_task_stop"])
async def test_a_misbehaving_hook_leaves_answer_and_status_alone(
    tmp_path: Path, hook: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    caplog.set_level(logging.WARNING, "deerflow")
    loaded = recording(seen, ("broken:install", Misbehaving(hook, fault)))
    with installed(loaded):
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            run = await finished(host, "delegate")
    assert run.ending is not None and run.ending.status == "success"
    assert "Task Succeeded. Result: echo: one" in answer(run)
    assert f"Extension broken:install: {hook}" in caplog.text
    if fault.startswith("raises"):
        assert sorted(seen.kinds()) == sorted(
            ["start lead", "stop lead", *["start subagent", "stop subagent"] * 2]
        )
    else:
        other = "stop" if hook == "on_task_start" else "start"
        assert [kind for kind in seen.kinds() if kind.startswith(other)] == seen.kinds()
        assert len(seen.kinds()) == 3


async def test_an_abandoned_hook_does_not_hold_up_the_run(tmp_path: Path) -> None:
    with installed(
        recording(Seen(), ("broken:install", Misbehaving("on_task_stop", "ignores cancellation")))
    ):
        async with scripted_host(tmp_path) as host:
            began = asyncio.get_running_loop().time()
            await finished(host, "hello")
            assert asyncio.get_running_loop().time() - began < 3
