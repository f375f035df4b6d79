"""Whatever one contribution does wrong, the run and the other extensions go on as without it.

Each hook of each kind, each way to misbehave, in the lead and in a subagent, through the Gateway and the
embedded client, between two well-behaved extensions.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from support.doors import Told, open_door
from support.extensions import installed
from support.hostile import (
    BROKEN,
    FALSY,
    FAULTS,
    HANGS,
    IGNORES,
    MIDDLEWARE_HOOKS,
    PLAIN_FAULTS,
    Fault,
    Witness,
    broken_assembly_observer,
    broken_compaction_observer,
    broken_contributor,
    broken_middleware,
    broken_system_observer,
    broken_tasks,
    surrounded,
)
from support.stepping import effects_of, stepping_config

from deerflow.extensions import contributions, loop_blocks
from deerflow.extensions.dispatch import Dispatch

HOOK_SECONDS = 0.05
BUDGET_SECONDS = 0.1
KINDS = ("lead", "subagent")


@dataclass(frozen=True)
class Course:
    """Everything about a run that a contribution must not change."""

    told: Told
    effects: tuple[int, ...]
    before: Counter[str]
    after: Counter[str]


class Scene:
    """A door, and how a run goes there when nobody misbehaves."""

    def __init__(self, door: Any) -> None:
        self.door = door
        self.usual = self.run({}, lambda course: course.after["compaction"] == 2)

    def run(self, broken: dict[str, Any], complete: Callable[[Course], bool]) -> Course:
        """One run of these contributions, looked at once it is complete: nobody waits for observations."""
        text, before, after = uuid4().hex, Witness(), Witness()
        with installed(surrounded(before, after, broken)):
            told = self.door.run(text)
            anonymous = Told(told.status, told.answer.replace(text, "X"))
            deadline = time.monotonic() + 30
            while True:
                course = Course(anonymous, effects_of(text), Counter(before.calls), Counter(after.calls))
                if complete(course) or time.monotonic() > deadline:
                    return course
                time.sleep(0.002)


@pytest.fixture(scope="module", params=["gateway", "client"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    config = stepping_config(tmp_path_factory.mktemp("home"), shutdown={"drain_seconds": 0.01})
    with open_door(request.param, config) as door:
        yield Scene(door)


@pytest.fixture(params=[0])
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    fault = Fault(request.param)
    yield fault
    fault.released = True


@pytest.fixture(autouse=True)
def _little_time_for_what_hangs(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that hangs is given up early once it is there; whatever else is called has its usual time."""
    monkeypatch.setattr(loop_blocks, "SLOW_CALL_SECONDS", 30.0)
    if fault.name not in (HANGS, IGNORES):
        return
    isolate, call = contributions.isolate, Dispatch._call

    def isolate_soon(source: str, *args: Any, hook_timeout_seconds: float, **kwargs: Any) -> Any:
        seconds = HOOK_SECONDS if source == BROKEN else hook_timeout_seconds
        return isolate(source, *args, hook_timeout_seconds=seconds, **kwargs)

    async def call_shortly(dispatch: Dispatch, source: str, contributor: Any) -> None:
        if source != BROKEN:
            return await call(dispatch, source, contributor)
        spent = asyncio.get_running_loop().call_later(BUDGET_SECONDS, dispatch._run_out)
        try:
            await call(dispatch, source, contributor)
        finally:
            spent.cancel()

    monkeypatch.setattr(contributions, "isolate", isolate_soon)
    monkeypatch.setattr(Dispatch, "_call", call_shortly)


def _each(faults: tuple[str, ...]) -> Any:
    return pytest.mark.parametrize("fault", faults, indirect=True)


def _judge(scene: Scene, broken: dict[str, Any], fault: Fault, *skipped: str) -> None:
    """`skipped` are the calls of the extension behind that a hook which hangs may cost."""
    usual = scene.usual
    expected = usual.after
    if skipped and fault.name in (HANGS, IGNORES):  # the budget is shared: whoever stands behind is out
        expected = Counter({call: count for call, count in usual.after.items() if call not in skipped})
    complete = partial(_is_complete, before=usual.before, after=expected)
    course = scene.run(broken, complete)
    assert fault.calls > 0, "the hook was never called"
    assert course.told == usual.told
    assert course.effects == usual.effects
    assert course.before == usual.before
    assert course.after == expected


def _is_complete(course: Course, *, before: Counter[str], after: Counter[str]) -> bool:
    return (course.before, course.after) == (before, after)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hook", MIDDLEWARE_HOOKS)
@_each(FAULTS)
def test_a_middleware_hook(scene: Scene, hook: str, kind: str, fault: Fault) -> None:
    _judge(scene, broken_middleware(hook, fault, kind), fault)


@pytest.mark.parametrize("kind", KINDS)
@_each(PLAIN_FAULTS)
def test_a_middleware_contributor(scene: Scene, kind: str, fault: Fault) -> None:
    _judge(scene, broken_contributor(fault, kind), fault)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hook", ["on_task_start", "on_task_stop"])
@_each(FAULTS)
def test_a_task_hook(
    scene: Scene, hook: str, kind: str, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    skipped = f"start {kind}" if hook == "on_task_start" else f"stop {kind} completed"
    _judge(scene, broken_tasks(hook, fault, kind), fault, skipped)
    assert (f"Extension {BROKEN}: {hook}" in caplog.text) == (fault.name != FALSY)


@pytest.mark.parametrize(
    ("kind", "skipped"),
    [("lead", ("title lead", "summarization lead")), ("subagent", ("summarization subagent",))],
)
@_each(FAULTS)
def test_an_observer_of_system_calls(scene: Scene, kind: str, skipped: tuple[str, ...], fault: Fault) -> None:
    _judge(scene, broken_system_observer(fault, kind), fault, *skipped)


@_each(FAULTS)
def test_an_observer_of_compactions(scene: Scene, fault: Fault) -> None:
    _judge(scene, broken_compaction_observer(fault), fault, "compaction")


@pytest.mark.parametrize("kind", KINDS)
@_each(PLAIN_FAULTS)
def test_an_observer_of_assemblies(scene: Scene, kind: str, fault: Fault) -> None:
    _judge(scene, broken_assembly_observer(fault, kind), fault)
