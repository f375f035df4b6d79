"""The contributed middlewares of one agent at each line of its stack, and what those lines promise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deerflow_extension_api import AgentBuildContext, Placement
from langchain.agents.middleware.types import AgentMiddleware

from deerflow.errors import DeerFlowError
from deerflow.extensions.contributions import collect_contributions
from deerflow.extensions.diagnostics import type_name
from deerflow.extensions.hook_names import has_hook
from deerflow.extensions.isolation import IsolatedMiddleware
from deerflow.extensions.snapshot import LoadedExtensions

Middleware: TypeAlias = AgentMiddleware[Any, Any]


class StackOrderError(DeerFlowError, RuntimeError):
    """The host's own stack breaks what a placement promises; no agent is built with it."""


@dataclass(frozen=True)
class Placements:
    """The contributed middlewares of one agent, each isolated, outermost first at each placement."""

    model_logical: tuple[IsolatedMiddleware, ...] = ()
    model_physical: tuple[IsolatedMiddleware, ...] = ()
    tool_visible: tuple[IsolatedMiddleware, ...] = ()
    tool_raw: tuple[IsolatedMiddleware, ...] = ()
    standard: tuple[IsolatedMiddleware, ...] = ()

    def at(self, placement: Placement) -> tuple[IsolatedMiddleware, ...]:
        """Return those at one placement."""
        middlewares: tuple[IsolatedMiddleware, ...] = getattr(self, placement.value)
        return middlewares

    def origin_of(self, middleware: Middleware) -> IsolatedMiddleware | None:
        """Return the wrapper, with `source` and `inner`, where `middleware` is contributed; else None."""
        everything = (own for placement in Placement for own in self.at(placement))
        return next((own for own in everything if own is middleware), None)


def collect_placements(
    snapshot: LoadedExtensions, ctx: AgentBuildContext, *, hook_timeout_seconds: float
) -> Placements:
    """Return what is contributed to this agent, by placement, sorted by `order`, then by registration.

    What is wrong with a contribution is reported to the snapshot's diagnostics, and costs that one only.
    """
    contributions = collect_contributions(snapshot, ctx, hook_timeout_seconds=hook_timeout_seconds)
    contributions.sort(key=lambda contribution: contribution.order)
    return Placements(
        **{
            placement.value: tuple(c.middleware for c in contributions if c.placement is placement)
            for placement in Placement
        }
    )


def check_stack_order(stack: Sequence[Middleware], placements: Placements, *, retry: Middleware) -> None:
    """Raise `StackOrderError` where a stack, outermost first, breaks what a placement promises.

    Contributed wrap hooks only look on, so what counts is where the host's and the application's own stand.
    """
    lines = _Lines(stack, placements)
    if not any(middleware is retry for middleware in stack):
        raise StackOrderError("the agent was not built: its stack has no line for the retry of model calls")
    for middleware in placements.model_logical:
        lines.require_outside(Placement.MODEL_LOGICAL, middleware, [retry])
    for middleware in placements.model_physical:
        lines.require_inside(Placement.MODEL_PHYSICAL, middleware, [retry, *lines.own("wrap_model_call")])
    for middleware in placements.tool_visible:
        lines.require_outside(Placement.TOOL_VISIBLE, middleware, lines.own("wrap_tool_call"))
    for middleware in placements.tool_raw:
        lines.require_inside(Placement.TOOL_RAW, middleware, lines.own("wrap_tool_call"))
    for placement in Placement:
        lines.require_sequence(placement, placements.at(placement))


class _Lines:
    """A stack, with the line of each middleware in it."""

    def __init__(self, stack: Sequence[Middleware], placements: Placements) -> None:
        self._stack = stack
        self._line_of = {id(middleware): line for line, middleware in enumerate(stack)}
        self._contributed = {id(own) for placement in Placement for own in placements.at(placement)}

    def own(self, hook: str) -> list[Middleware]:
        """Return those of the host and the application that have this hook."""
        return [m for m in self._stack if id(m) not in self._contributed and has_hook(m, hook)]

    def require_outside(
        self, placement: Placement, middleware: IsolatedMiddleware, others: Iterable[Middleware]
    ) -> None:
        for other in others:
            if self._line(placement, middleware) > self._line_of[id(other)]:
                problem = f"stands inside {type(other).__name__}; move the line of {placement.value} above it"
                raise _broken(placement, middleware, problem)

    def require_inside(
        self, placement: Placement, middleware: IsolatedMiddleware, others: Iterable[Middleware]
    ) -> None:
        for other in others:
            if self._line(placement, middleware) < self._line_of[id(other)]:
                problem = (
                    f"stands outside {type(other).__name__}; move the line of {placement.value} below it"
                )
                raise _broken(placement, middleware, problem)

    def require_sequence(self, placement: Placement, middlewares: Sequence[IsolatedMiddleware]) -> None:
        lines = [self._line(placement, middleware) for middleware in middlewares]
        for middleware, line, next_line in zip(middlewares, lines, lines[1:], strict=False):
            if line > next_line:
                raise _broken(
                    placement, middleware, "is out of its order; keep the placement's tuple as it is"
                )

    def _line(self, placement: Placement, middleware: IsolatedMiddleware) -> int:
        line = self._line_of.get(id(middleware))
        if line is None:
            raise _broken(placement, middleware, "is missing from the stack; give its placement a line")
        return line


def _broken(placement: Placement, middleware: IsolatedMiddleware, problem: str) -> StackOrderError:
    name = type_name(middleware.inner)
    return StackOrderError(
        f"the agent was not built: {name} of extension {middleware.source}, at {placement.name}, {problem}"
    )
