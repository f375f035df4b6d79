"""What one request may ask for, checked against the configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from deerflow.config.problems import shown
from deerflow.config.schema import AppConfig
from deerflow.errors import InvalidRequestError

logger = logging.getLogger(__name__)

REASONING_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
MAX_SUBAGENTS_PER_REQUEST = 50


@dataclass(frozen=True)
class RequestOptions:
    """The wishes of one request; hashable, so that what is built for them can be cached by them.

    `None` stands for "not asked for". `approve_tools` is sorted, without repetition.
    """

    model_name: str | None = None
    agent_name: str | None = None
    thinking_enabled: bool | None = None
    reasoning_effort: str | None = None
    subagent_enabled: bool = True
    max_total_subagents: int | None = None
    goal: str | None = None
    approve_tools: tuple[str, ...] = ()


class _NotAllowed(Exception):
    """What is allowed instead."""


def parse_request_options(context: Mapping[str, Any] | None, config: AppConfig) -> RequestOptions:
    """Return the options in `context`; keys that are none are dropped, and so is `None`.

    Wrong values raise one `InvalidRequestError` that names each key, its value, and what is allowed.
    """
    checks = _checks(config)
    given: dict[str, Any] = {}
    faults: list[str] = []
    for key in (option.name for option in fields(RequestOptions)):
        value = (context or {}).get(key)
        if value is None:
            continue
        try:
            given[key] = checks[key](value)
        except _NotAllowed as allowed:
            faults.append(f"{key}: {shown(value)} is not allowed; allowed: {allowed}")
    if faults:
        raise InvalidRequestError("\n".join(faults))
    return RequestOptions(**given)


def clamp_recursion_limit(value: Any, config: AppConfig) -> int:
    """Return the caller's limit of graph steps, at most `runs.recursion_limit`.

    `None` and what is no whole number from 1 give the configured limit, the latter with a warning.
    """
    limit = config.runs.recursion_limit
    if value is None:
        return limit
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
        logger.warning(
            "recursion_limit: %s is not a whole number in 1..%d; %d applies", shown(value), limit, limit
        )
        return limit
    return value


def _checks(config: AppConfig) -> dict[str, Callable[[Any], Any]]:
    return {
        "model_name": _one_of(config.model_names, "a configured model"),
        "agent_name": _one_of(tuple(config.subagents.custom_agents), "a configured custom agent"),
        "thinking_enabled": _flag,
        "reasoning_effort": _one_of(REASONING_EFFORTS, "an effort"),
        "subagent_enabled": _flag,
        "max_total_subagents": _subagents,
        "goal": _goal,
        "approve_tools": _tool_names,
    }


def _one_of(known: tuple[str, ...], what: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise _NotAllowed(f"{what}: {', '.join(map(repr, known)) or 'there is none'}")
        return value

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _NotAllowed("true or false")
    return value


def _subagents(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SUBAGENTS_PER_REQUEST:
        raise _NotAllowed(f"a whole number in 1..{MAX_SUBAGENTS_PER_REQUEST}")
    return value


def _goal(value: Any) -> str | None:
    if not isinstance(value, str):
        raise _NotAllowed("text")
    return value.strip() or None


def _tool_names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise _NotAllowed("a list of tool names")
    return tuple(sorted(set(value)))
