"""Is a run with an extension the run that it would be without?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from deerflow.testing.loading import Extension
from deerflow.testing.scenarios import Scenario
from deerflow.testing.scripted_host import ScriptedHost
from deerflow.testing.seen import SeenRun


@dataclass(frozen=True)
class Course:
    """What an extension that only observes must leave as it is, without ids and in no accidental order."""

    status: str
    answer: str
    error: str | None
    stop_reason: str | None
    messages: tuple[Any, ...]
    tasks: Counter[Any]
    custom_events: Counter[str]

    @classmethod
    def of(cls, run: SeenRun) -> Course:
        """Return the course of a run."""
        return cls(
            status=run.status,
            answer=run.answer,
            error=run.error,
            stop_reason=run.stop_reason,
            messages=tuple(map(_content, run.messages)),
            tasks=Counter(
                (task.info.kind, str(task.outcome), task.model_calls, task.tool_calls) for task in run.tasks
            ),
            custom_events=Counter(
                str(data.get("type"))
                for name, data in run.events
                if name == "custom" and isinstance(data, dict)
            ),
        )

    def differences(self, other: Course, *, but: Sequence[str] = ()) -> Iterator[str]:
        """Yield a line for each part, except those named in `but`, that is another one in `other`."""
        for name in vars(self):
            usual, now = getattr(self, name), getattr(other, name)
            if usual != now and name not in but:
                yield f"{name}: {_shown(usual)} became {_shown(now)}"


def differences(
    extension: Extension, scenario: Scenario, config: Mapping[str, Any] | None = None, **options: Any
) -> list[str]:
    """Return what is different about a scenario's runs when `extension` is there; empty where nothing is.

    `options` are those of `ScriptedHost`. Compared are status, answer, error, messages, the executions of
    agents with their model and tool calls, and the kinds of custom events.
    """
    with ScriptedHost(**options) as plain:
        usual = plain.play(scenario)
    with ScriptedHost(extension, config, **options) as host:
        now = host.play(scenario)
    return [
        f"{scenario}, run {number}: {line}"
        for number, (before, after) in enumerate(zip(usual, now, strict=True), 1)
        for line in Course.of(before).differences(Course.of(after))
    ]


def assert_undisturbed(
    extension: Extension, scenario: Scenario, config: Mapping[str, Any] | None = None, **options: Any
) -> None:
    """Fail with what is different where the scenario's runs are not what they are without `extension`."""
    found = differences(extension, scenario, config, **options)
    if found:
        raise AssertionError("the extension changed the run\n" + "\n".join(found))


def _kind(custom_event: Any) -> str:
    return str(custom_event.get("type")) if isinstance(custom_event, dict) else type(custom_event).__name__


def _content(message: AnyMessage) -> tuple[Any, ...]:
    """A message without its ids, names of tools and arguments included."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    status = message.status if isinstance(message, ToolMessage) else None
    return message.type, str(message.content), tuple((c["name"], str(c["args"])) for c in calls), status


def _shown(value: Any) -> str:
    text = repr(dict(value) if isinstance(value, Counter) else value)
    return text if len(text) <= 400 else f"{text[:400]}..."
