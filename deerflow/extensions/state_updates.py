"""What a contributed node hook returned, checked for what would end the run once the graph applies it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send

from deerflow.extensions.diagnostics import error_text, type_name
from deerflow.extensions.state_keys import StateKeys


@dataclass(frozen=True)
class NodeCall:
    """One call of a node hook: the state and configuration that it was called with, and the agent's keys."""

    state: Any
    config: RunnableConfig
    keys: StateKeys


def problem_of_update(update: Any, call: NodeCall) -> str | None:
    """Return what is wrong with the value of a node hook, None where the graph can apply it."""
    if update is None:
        return None
    if not issubclass(type(update), (dict, Command)):
        return f"it returned {describe_value(update)}; a node hook returns a dict, a Command or None"
    try:
        return _problem_of_content(update, call)
    except Exception as error:  # noqa: BLE001 - a class of their own may run foreign code
        return f"what it returned cannot be read: {error_text(error)}"


def describe_value(value: Any) -> str:
    """Name what a hook returned, without running any code of it."""
    if inspect.iscoroutine(value):
        value.close()  # unawaited, it would only warn
        return "a coroutine"
    return "nothing" if value is None else f"an object of type {type_name(value)}"


def _problem_of_content(update: Any, call: NodeCall) -> str | None:
    if isinstance(update, Command):
        return _problem_of_goto(update.goto) or _problem_of_changes(_pairs(update.update), call)
    return _problem_of_changes(update.items(), call)


def _pairs(changes: Any) -> Iterable[Any]:
    if isinstance(changes, dict):
        return changes.items()
    return changes if isinstance(changes, (list, tuple)) else ()


def _problem_of_goto(goto: Any) -> str | None:
    targets = goto if isinstance(goto, (list, tuple)) else (goto,)
    wrong = next((target for target in targets if not isinstance(target, (str, Send))), None)
    return None if wrong is None else f"its Command goes to {describe_value(wrong)}, expected a node's name"


def _problem_of_changes(changes: Iterable[Any], call: NodeCall) -> str | None:
    messages = call.state.get("messages") or [] if isinstance(call.state, dict) else []
    for change in changes:
        if not isinstance(change, tuple) or len(change) != 2:
            return f"its update holds {describe_value(change)}, expected pairs of key and value"
        key, value = change
        if key == "jump_to" and not isinstance(value, (str, type(None))):
            return f"its jump_to is {describe_value(value)}, expected end, model or tools"
        if key == "messages":
            try:
                messages = add_messages(messages, value)
            except Exception as error:  # noqa: BLE001 - foreign values; what they raise is the answer
                return f"its messages cannot be added to the state: {error_text(error)}"
        problem = call.keys.problem_of(key, value, call.state, call.config) if isinstance(key, str) else None
        if problem is not None:
            return problem
    return None
