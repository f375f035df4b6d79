"""Middlewares that an extension adds to agents, and where in the stack they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Flag, StrEnum, auto
from typing import Any, Protocol

from .policy import HostPolicySnapshot
from .state import ExtensionData


class Placement(StrEnum):
    """What a middleware is promised to see."""

    MODEL_LOGICAL = "model_logical"
    """One event for one model decision: outside the host's retry, three attempts are one call."""

    MODEL_PHYSICAL = "model_physical"
    """Every request as it leaves for the provider: inside retry, three attempts are three calls."""

    TOOL_VISIBLE = "tool_visible"
    """The tool call as the model sees it: outermost, its result is what enters the transcript."""

    TOOL_RAW = "tool_raw"
    """The call next to the tool: arguments after every host rewrite, the result before any."""

    STANDARD = "standard"
    """No promise but to be inside the host's own stack."""


class AgentScope(Flag):
    """Which agents a middleware is for."""

    LEAD = auto()
    SUBAGENT = auto()
    BOTH = LEAD | SUBAGENT


@dataclass(frozen=True)
class MiddlewarePlacement:
    """One LangChain `AgentMiddleware` and its place.

    `order` sorts contributions at one placement: lower stands further out, equal ones keep registration
    order. Nothing is checked here: the host skips a placement with wrong values and reports it.
    """

    middleware: Any
    placement: Placement
    scope: AgentScope = AgentScope.BOTH
    order: int = 0


@dataclass(frozen=True)
class AgentBuildContext:
    """The agent that is being assembled. `policy` holds the limits of this agent, lead or subagent."""

    scope: AgentScope
    agent_name: str | None = None
    model_name: str | None = None
    policy: HostPolicySnapshot = field(default_factory=HostPolicySnapshot)


class MiddlewareContributor(Protocol):
    """Adds middlewares at each assembly. An assembled agent serves many runs, side by side."""

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        """Return the middlewares for this agent, possibly none. Must be quick: nothing bounds it."""
        return ()
