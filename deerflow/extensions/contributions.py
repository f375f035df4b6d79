"""The middlewares that extensions contribute to one agent, checked and isolated.

Nothing of an extension's objects is trusted before its type is known: no truth value, comparison or text of
theirs decides anything, and what one of them raises costs its own contribution only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from time import monotonic
from typing import Any, Final

from deerflow_extension_api import AgentBuildContext, AgentScope, MiddlewarePlacement, Placement
from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import Tool

from deerflow.extensions.cancellation import must_propagate
from deerflow.extensions.contributed import RejectedMiddlewareError
from deerflow.extensions.diagnostics import error_text, report_call, type_name, watch_duration
from deerflow.extensions.hook_names import PLAIN_SCHEMAS
from deerflow.extensions.hooks import discard_unfinished
from deerflow.extensions.isolation import IsolatedMiddleware, isolate
from deerflow.extensions.outcomes import record_outcome
from deerflow.extensions.snapshot import LoadedExtensions
from deerflow.extensions.state_keys import StateKeys

HOOK: Final = "contribute_middlewares()"
MOST_PLACEMENTS: Final = 256

_NOT_IN_NAMES: Final = re.compile(r"[^0-9A-Za-z_]+")
_NAME_LENGTH: Final = 80


@dataclass(frozen=True)
class Contribution:
    """One isolated middleware and where it belongs."""

    middleware: IsolatedMiddleware
    placement: Placement
    order: int


def collect_contributions(
    snapshot: LoadedExtensions, ctx: AgentBuildContext, *, hook_timeout_seconds: float
) -> list[Contribution]:
    """Return what is contributed to this agent, in registration order; what is wrong is reported."""
    collector = _Collector(snapshot, ctx, hook_timeout_seconds)
    for source, contributor in snapshot.middleware_contributors:
        collector.add_all_of(source, contributor)
    return collector.contributions


@dataclass
class _Collector:
    """One collection for one agent."""

    snapshot: LoadedExtensions
    ctx: AgentBuildContext
    hook_timeout_seconds: float
    contributions: list[Contribution] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    _state_keys: StateKeys = field(default_factory=StateKeys)

    def add_all_of(self, source: str, contributor: Any) -> None:
        """Add what one contributor has for this agent; nothing at all of one that fails."""
        started, failed = monotonic(), True
        try:
            with watch_duration(source, HOOK):
                returned = contributor.contribute_middlewares(self.snapshot.app_store, self.ctx)
                placements = _listed(returned)
            failed = False
        except BaseException as error:
            if must_propagate(error):
                raise
            self._report(source, f"{HOOK} failed: {error_text(error)}", error)
            return
        finally:
            record_outcome(source, HOOK.removesuffix("()"), monotonic() - started, failed=failed)
        for number, placement in enumerate(placements, 1):
            self._add(source, f"middleware {number} of {len(placements)}", placement)

    def _add(self, source: str, which: str, placement: Any) -> None:
        try:
            contribution = self._checked(source, placement)
        except BaseException as error:
            if must_propagate(error):
                raise
            self._report(source, f"{which} from {HOOK} was skipped: {error_text(error)}", error)
        else:
            if contribution is not None:
                self.contributions.append(contribution)

    def _checked(self, source: str, placement: Any) -> Contribution | None:
        """Return the contribution, None where it is for other agents. Raises what is wrong with it."""
        middleware, where, scope, order = _fields(placement)
        if not scope & self.ctx.scope:
            return None
        if id(middleware) in self._seen:
            raise RejectedMiddlewareError(
                f"this {type_name(middleware)} object stands in the agent already; contribute another"
            )
        isolated = isolate(
            source,
            middleware,
            name=self._free_name(source, middleware),
            hook_timeout_seconds=self.hook_timeout_seconds,
            report=partial(report_call, self.snapshot.diagnostics, "warning"),
            state_keys=self._state_keys,
        )
        _try_out(isolated)
        self._state_keys.add(isolated.state_schema)
        self._seen.add(id(middleware))
        self._names.add(isolated.name)
        return Contribution(isolated, where, order)

    def _free_name(self, source: str, middleware: AgentMiddleware) -> str:
        """Return a name that stays the same from start to start, as long as this entry does.

        A thread that waits for an answer finds its way back by the names of the graph's nodes.
        """
        stem = _NOT_IN_NAMES.sub("_", f"ext_{source}_{type_name(middleware)}")[:_NAME_LENGTH]
        name, number = stem, 1
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        return name

    def _report(self, source: str, message: str, error: BaseException) -> None:
        cause = None if isinstance(error, RejectedMiddlewareError) else error
        report_call(self.snapshot.diagnostics, "error", source, message, error=cause)


def _listed(returned: Any) -> list[Any]:
    """Return the placements that a contributor returned. Raises for what is no sequence."""
    unfinished = discard_unfinished(returned)
    if unfinished is not None:
        raise RejectedMiddlewareError(f"it returned {unfinished}, expected a sequence of MiddlewarePlacement")
    if isinstance(returned, (str, bytes, dict)) or not isinstance(returned, Iterable):
        raise RejectedMiddlewareError(
            f"it returned {type_name(returned)}, expected a sequence of MiddlewarePlacement"
        )
    placements = list(islice(iter(returned), MOST_PLACEMENTS + 1))
    if len(placements) > MOST_PLACEMENTS:
        raise RejectedMiddlewareError(f"it returned more than {MOST_PLACEMENTS} placements")
    return placements


def _fields(placement: Any) -> tuple[AgentMiddleware, Placement, AgentScope, int]:
    if not issubclass(type(placement), MiddlewarePlacement):
        raise RejectedMiddlewareError(f"it is {type_name(placement)}, expected a MiddlewarePlacement")
    where, scope, order = placement.placement, placement.scope, placement.order
    if type(where) is not Placement:
        raise RejectedMiddlewareError(f"its placement is {type_name(where)}, expected a Placement")
    if type(scope) is not AgentScope or not 0 < scope.value <= AgentScope.BOTH.value:
        raise RejectedMiddlewareError("its scope is no AgentScope of LEAD, SUBAGENT or BOTH")
    if type(order) is not int:
        raise RejectedMiddlewareError(f"its order is {type_name(order)}, expected an int")
    return _middleware(placement.middleware), where, scope, order


def _middleware(middleware: Any) -> AgentMiddleware:
    if issubclass(type(middleware), type):
        name = type.__dict__["__name__"].__get__(middleware)
        raise RejectedMiddlewareError(f"it is the class {name}; contribute an instance of it")
    if not issubclass(type(middleware), AgentMiddleware):
        raise RejectedMiddlewareError(f"it is {type_name(middleware)}, expected an AgentMiddleware")
    checked: AgentMiddleware = middleware
    return checked


def _try_out(isolated: IsolatedMiddleware) -> None:
    """Build an agent with this middleware alone, so that it cannot spoil the building of the host's.

    Hooks alone cannot: they are behind faces of our own.
    """
    if not isolated.tools and not isolated.transformers and isolated.state_schema in PLAIN_SCHEMAS:
        return
    try:
        create_agent(_MODEL, tools=[_TOOL], middleware=[isolated])
    except Exception as error:
        raise RejectedMiddlewareError(f"no agent can be built with it: {error_text(error)}") from error


_MODEL: Final = FakeListChatModel(responses=[""])
_TOOL: Final = Tool("nothing", str, description="Does nothing.")
