"""The stories of one contributed hook: a node hook may update the state, a wrap hook may only look.

What a hook does wrong ends in one report; the model call or the tool's side effect happens exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Protocol, TypeAlias

from langgraph.errors import GraphBubbleUp

from deerflow.extensions.detached import detached_request, detached_result
from deerflow.extensions.diagnostics import error_text
from deerflow.extensions.hook_names import HOOK_OF_SIDE
from deerflow.extensions.hook_runs import (
    CANCEL_GRACE_SECONDS,
    AsyncThreadRun,
    HookRun,
    SyncThreadRun,
    TaskRun,
)
from deerflow.extensions.hook_threads import Lane
from deerflow.extensions.outcomes import record_outcome
from deerflow.extensions.state_updates import NodeCall, describe_value, problem_of_update

MOST_THREADS: Final = 64

AsyncRun: TypeAlias = TaskRun | AsyncThreadRun

_CONTROL_FLOW: Final = (GraphBubbleUp, KeyboardInterrupt, SystemExit)


class Report(Protocol):
    """Logs and collects one problem of one extension."""

    def __call__(self, source: str, message: str, *, error: BaseException | None = None) -> object: ...


@dataclass(frozen=True)
class WrapCall:
    """One call that a wrap hook stands around: the real request and handler, and what the hook is shown."""

    hook: str
    function: Callable[[Any, Any], Any]
    request: Any
    handler: Callable[[Any], Any]
    shown_request: Any

    @classmethod
    def of(cls, hook: str, function: Callable[[Any, Any], Any], request: Any, handler: Any) -> WrapCall:
        """Return the call with a view of its request."""
        return cls(hook, function, request, handler, detached_request(request))


@dataclass(frozen=True)
class Isolation:
    """How the hooks of one contributed middleware are run."""

    source: str
    class_name: str
    limit_seconds: float
    report: Report
    lane: Lane = field(default_factory=lambda: Lane(MOST_THREADS))

    async def anode(self, hook: str, run: AsyncRun, call: Callable[[], Any], called: NodeCall) -> Any:
        """Return the state update of a node hook, None where it failed."""
        run.start(call)
        try:
            await run.settle(self.limit_seconds)
            return self._update(hook, run, called)
        finally:
            self._leave(hook, run)

    def node(self, hook: str, call: Callable[[], Any], called: NodeCall) -> Any:
        """Return the state update of a node hook, None where it failed."""
        run = SyncThreadRun(self.lane)
        run.start(call)
        try:
            run.settle(self.limit_seconds)
            return self._update(hook, run, called)
        finally:
            self._leave(hook, run)

    async def awrap(self, run: AsyncRun, call: WrapCall) -> Any:
        """Return or raise what the real handler does, called once, with the hook looking on."""
        run.start(lambda: call.function(call.shown_request, run.handler))
        try:
            await run.settle(self.limit_seconds)
            if not run.at_handler:
                self._judge_missing_call(call.hook, run)
                self._leave(call.hook, run)
                return await call.handler(call.request)
            entered = monotonic()
            result, failure = await _attempt(call.handler(call.request), run.context)
            run.handler_seconds = monotonic() - entered
            run.answer(result, failure, detached_result)
            await run.settle(self._rest_seconds(failure))
            self._judge_end(call, run, failure)
        finally:
            self._leave(call.hook, run)
        return _real_outcome(result, failure)

    def wrap(self, call: WrapCall) -> Any:
        """Return or raise what the real handler does, called once, with the hook looking on."""
        run = SyncThreadRun(self.lane)
        run.start(lambda: call.function(call.shown_request, run.handler))
        try:
            run.settle(self.limit_seconds)
            if not run.at_handler:
                self._judge_missing_call(call.hook, run)
                self._leave(call.hook, run)
                return call.handler(call.request)
            entered = monotonic()
            result, failure = _attempt_here(call, run.context)
            run.handler_seconds = monotonic() - entered
            run.answer(result, failure, detached_result)
            run.settle(self.limit_seconds)
            self._judge_end(call, run, failure)
        finally:
            self._leave(call.hook, run)
        return _real_outcome(result, failure)

    def skipped(self, hook: str, problem: str, error: BaseException | None = None) -> None:
        """Report that the host went on without what a hook did or wanted."""
        self.report(self.source, f"{self.class_name}.{hook} failed and was skipped: {problem}", error=error)

    def _leave(self, hook: str, run: HookRun) -> None:
        """Go on without the run if it has not ended, and tell once how it went."""
        if not run.ended:
            run.give_up()
        if not run.told:
            run.told = True
            span_seconds = monotonic() - run.began
            own_seconds = span_seconds - run.handler_seconds
            record_outcome(
                self.source, HOOK_OF_SIDE[hook], own_seconds, failed=run.failed, span_seconds=span_seconds
            )

    def _rest_seconds(self, failure: BaseException | None) -> float:
        """How long a hook may take after its handler; less where the host is about to stop."""
        if isinstance(failure, asyncio.CancelledError):
            return min(self.limit_seconds, CANCEL_GRACE_SECONDS)
        return self.limit_seconds

    def _update(self, hook: str, run: HookRun, called: NodeCall) -> Any:
        if not run.ended:
            self._timed_out(hook, run)
        elif run.error is not None:
            self._failed(hook, run, run.error)
        else:
            problem = problem_of_update(run.value, called)
            if problem is None:
                return run.value
            self._fault(hook, run, problem)
        return None

    def _judge_missing_call(self, hook: str, run: HookRun) -> None:
        """Report a hook that has not come to its handler; raise what it raised as control flow."""
        if not run.ended:
            self._timed_out(hook, run)
        elif run.error is not None:
            self._failed(hook, run, run.error)
        else:
            returned = describe_value(run.value)
            problem = f"it returned {returned} without calling its handler, so the host called it"
            self._fault(hook, run, problem)

    def _judge_end(self, call: WrapCall, run: HookRun, failure: BaseException | None) -> None:
        """Report what a hook did wrong at or after its handler; raise what it raised as control flow."""
        if not run.ended:
            self._timed_out(call.hook, run)
        elif run.error is not None and not _same(run.error, failure):
            if failure is not None and isinstance(run.error, GraphBubbleUp):
                self._fault(call.hook, run, "it asked the graph to stop over a failure of its handler")
            else:
                self._failed(call.hook, run, run.error)
        else:
            problem = _misuse(call, run, failure)
            if problem is not None:
                self._fault(call.hook, run, problem)

    def _failed(self, hook: str, run: HookRun, error: BaseException) -> None:
        if isinstance(error, _CONTROL_FLOW):
            raise error
        self._fault(hook, run, error_text(error), error)

    def _timed_out(self, hook: str, run: HookRun) -> None:
        self._fault(hook, run, f"timed out after {float(self.limit_seconds)}s")

    def _fault(self, hook: str, run: HookRun, problem: str, error: BaseException | None = None) -> None:
        run.failed = True
        self.skipped(hook, problem, error)


async def _attempt(call: Coroutine[Any, Any, Any], context: Context) -> tuple[Any, BaseException | None]:
    """Run the real handler where the hook's context variables, a tracing span say, are seen.

    In a task of its own: a time limit of the hook's cannot cancel it, a cancellation of the host does.
    """
    asyncio_task = asyncio.get_running_loop().create_task(call, context=context)
    try:
        return await asyncio_task, None
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - travels on unchanged once the hook has seen it
        return None, error


def _attempt_here(call: WrapCall, context: Context) -> tuple[Any, BaseException | None]:
    try:
        return context.run(call.handler, call.request), None
    except BaseException as error:  # noqa: BLE001 - travels on unchanged once the hook has seen it
        return None, error


def _real_outcome(result: Any, failure: BaseException | None) -> Any:
    if failure is not None:
        raise failure
    return result


def _same(error: BaseException, failure: BaseException | None) -> bool:
    """Whether a hook only passed on the failure of its handler; cancellations may have changed hands."""
    both_cancelled = isinstance(error, asyncio.CancelledError) and isinstance(failure, asyncio.CancelledError)
    return error is failure or both_cancelled


def _misuse(call: WrapCall, run: HookRun, failure: BaseException | None) -> str | None:
    """Return what a hook tried in vain, though it ended well."""
    if run.called_again:
        return "it called its handler again; the call was refused"
    if run.request is not call.shown_request:
        return "it called its handler with another request; the original one was used"
    if run.error is not None or run.value is None or run.value is run.shown:
        return None
    kept = "the handler's failure" if failure is not None else "the real result"
    return f"it returned {describe_value(run.value)} of its own; {kept} was kept"
