"""Contributions of every kind that misbehave in one hook, for one kind of agent, in one way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deerflow_extension_api import AgentBuildContext, AgentScope, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware
from langgraph.types import interrupt

from deerflow.extensions import LoadedExtensions

BROKEN = "broken:install"

RAISES = "raises"
HANGS = "hangs"
IGNORES = "ignores cancellation"
CANCELS = "raises CancelledError"
WRONG = "returns the wrong type"
FALSY = "is falsy"
FAULTS = (RAISES, HANGS, IGNORES, CANCELS, WRONG, FALSY)
PLAIN_FAULTS = (RAISES, CANCELS, WRONG, FALSY)
"""What a plain function can do wrong; one that hangs cannot be bounded by anybody."""

NODE_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
WRAP_HOOKS = ("wrap_model_call", "wrap_tool_call")
MIDDLEWARE_HOOKS = (
    *NODE_HOOKS,
    *(f"{hook} {where}" for hook in WRAP_HOOKS for where in ("before", "after")),
)
SCOPES = {"lead": AgentScope.LEAD, "subagent": AgentScope.SUBAGENT}


@dataclass
class Fault:
    """One way to misbehave. `calls` counts how often it was due; stubborn hooks end once `released`."""

    name: str
    calls: int = 0
    released: bool = False

    async def commit(self) -> Any:
        """Do it in an async hook."""
        if self.name == HANGS:
            self.calls += 1
            await asyncio.Event().wait()
        if self.name == IGNORES:
            self.calls += 1
            await self._ignore_everything()
            return None
        return self.commit_now()

    def commit_now(self) -> Any:
        """Do it in a plain function."""
        self.calls += 1
        if self.name == RAISES:
            raise RuntimeError("broken on purpose")
        if self.name == CANCELS:
            raise asyncio.CancelledError
        return 42 if self.name == WRONG else None

    async def _ignore_everything(self) -> None:
        while not self.released:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue


@dataclass
class _Faulty:
    """What every contribution here has: falsy where that is the fault."""

    fault: Fault
    only_for: str

    def __bool__(self) -> bool:
        return self.fault.name != FALSY

    def __len__(self) -> int:
        return 0 if self.fault.name == FALSY else 1


@dataclass
class _Tasks(_Faulty):
    hook: str = ""

    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        await self._act("on_task_start", info)

    async def on_task_stop(self, app_store: Any, task_store: Any, info: Any, outcome: Any) -> None:
        await self._act("on_task_stop", info)

    async def _act(self, hook: str, info: Any) -> None:
        if hook == self.hook and info.kind == self.only_for:
            await self.fault.commit()


@dataclass
class _PlainTasks(_Faulty):
    """Hooks that forgot to be async: they return a number."""

    hook: str = ""

    def on_task_start(self, *arguments: Any) -> Any:
        return self._act("on_task_start", arguments[2])

    def on_task_stop(self, *arguments: Any) -> Any:
        return self._act("on_task_stop", arguments[2])

    def _act(self, hook: str, info: Any) -> Any:
        due = hook == self.hook and info.kind == self.only_for
        return self.fault.commit_now() if due else _nothing()


@dataclass
class _SystemCalls(_Faulty):
    async def on_system_model_call(self, app_store: Any, task_store: Any, kind: Any, *call: Any) -> Any:
        if _is_subagent(task_store) == (self.only_for == "subagent"):
            await self.fault.commit()


@dataclass
class _PlainSystemCalls(_Faulty):
    def on_system_model_call(self, app_store: Any, task_store: Any, kind: Any, *call: Any) -> Any:
        due = _is_subagent(task_store) == (self.only_for == "subagent")
        return self.fault.commit_now() if due else _nothing()


@dataclass
class _Compactions(_Faulty):
    async def on_context_compacted(self, app_store: Any, task_store: Any, event: Any) -> Any:
        await self.fault.commit()


@dataclass
class _PlainCompactions(_Faulty):
    def on_context_compacted(self, app_store: Any, task_store: Any, event: Any) -> Any:
        return self.fault.commit_now()


@dataclass
class _Assemblies(_Faulty):
    def on_agent_assembled(self, app_store: Any, descriptor: Any) -> Any:
        return self.fault.commit_now() if descriptor.namespace == self.only_for else None


@dataclass
class _Contributor(_Faulty):
    """Fails to contribute."""

    def contribute_middlewares(self, app_store: Any, ctx: AgentBuildContext) -> Any:
        if ctx.scope is not SCOPES[self.only_for]:
            return ()
        outcome = self.fault.commit_now()
        return () if outcome is None else outcome


@dataclass
class _Middlewares:
    """Contributes one middleware, for lead or subagent, in the middle of everything."""

    middleware: AgentMiddleware[Any, Any]
    scope: AgentScope
    placement: Placement = Placement.MODEL_LOGICAL

    def contribute_middlewares(self, app_store: Any, ctx: AgentBuildContext) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(self.middleware, self.placement, self.scope),)


def broken_tasks(hook: str, fault: Fault, kind: str) -> dict[str, Any]:
    """A task hook that misbehaves in tasks of this kind."""
    made = (_PlainTasks if fault.name == WRONG else _Tasks)(fault, kind, hook)
    return {"task_lifecycle": ((BROKEN, made),)}


def broken_system_observer(fault: Fault, kind: str) -> dict[str, Any]:
    """An observer of system calls that misbehaves at those of a lead, or of a subagent."""
    made = (_PlainSystemCalls if fault.name == WRONG else _SystemCalls)(fault, kind)
    return {"system_model_observers": ((BROKEN, made),)}


def broken_compaction_observer(fault: Fault) -> dict[str, Any]:
    """An observer of compactions that misbehaves at each."""
    made = (_PlainCompactions if fault.name == WRONG else _Compactions)(fault, "")
    return {"context_compaction_observers": ((BROKEN, made),)}


def broken_assembly_observer(fault: Fault, kind: str) -> dict[str, Any]:
    """An observer of assemblies that misbehaves at those of a lead, or of subagents."""
    return {"agent_assembly_observers": ((BROKEN, _Assemblies(fault, kind)),)}


def broken_contributor(fault: Fault, kind: str) -> dict[str, Any]:
    """A contributor that misbehaves when it is asked for middlewares."""
    return {"middleware_contributors": ((BROKEN, _Contributor(fault, kind)),)}


def broken_middleware(hook: str, fault: Fault, kind: str) -> dict[str, Any]:
    """A middleware that misbehaves in one hook; `wrap_model_call after` is after its handler."""
    name, _, where = hook.partition(" ")
    body = _wrap_hook(fault, where) if where else _node_hook(fault.commit)
    return _contributing(name, body, kind, falsy=fault.name == FALSY)


def interrupting_middleware(hook: str, kind: str) -> dict[str, Any]:
    """A middleware that asks a person in one hook, and only looks on then."""

    async def ask() -> None:
        interrupt({"question": hook})

    name, _, where = hook.partition(" ")
    return _contributing(name, _wrap_hook_of(ask, where) if where else _node_hook(ask), kind)


def _contributing(name: str, body: Callable[..., Any], kind: str, *, falsy: bool = False) -> dict[str, Any]:
    methods: dict[str, Any] = {f"a{name}": body}
    if falsy:
        methods |= {"__bool__": lambda self: False, "__len__": lambda self: 0}
    middleware = type("Hostile", (AgentMiddleware,), methods)()
    return {"middleware_contributors": ((BROKEN, _Middlewares(middleware, SCOPES[kind])),)}


def _node_hook(act: Callable[[], Any]) -> Callable[..., Any]:
    async def hook(self: Any, state: Any, runtime: Any) -> Any:
        return await act()

    return hook


def _wrap_hook(fault: Fault, where: str) -> Callable[..., Any]:
    async def hook(self: Any, request: Any, handler: Any) -> Any:
        result = await handler(request) if where == "after" else None
        wrong = await fault.commit()
        if wrong is not None:
            return wrong
        return result if where == "after" else await handler(request)

    return hook


def _wrap_hook_of(act: Callable[[], Any], where: str) -> Callable[..., Any]:
    async def hook(self: Any, request: Any, handler: Any) -> Any:
        if where == "before":
            await act()
        result = await handler(request)
        if where == "after":
            await act()
        return result

    return hook


async def _nothing() -> None:
    return None


def _is_subagent(task_store: Any) -> bool:
    return bool(task_store.scope_id.startswith("call-"))


@dataclass
class Witness:
    """A well-behaved extension: `calls` says which hook was called, and in which kind of agent."""

    calls: list[str] = field(default_factory=list)

    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        self.calls.append(f"start {info.kind}")

    async def on_task_stop(self, app_store: Any, task_store: Any, info: Any, outcome: Any) -> None:
        self.calls.append(f"stop {info.kind} {outcome}")

    async def on_system_model_call(self, app_store: Any, task_store: Any, kind: Any, *call: Any) -> None:
        self.calls.append(f"{kind} {'subagent' if _is_subagent(task_store) else 'lead'}")

    async def on_context_compacted(self, app_store: Any, task_store: Any, event: Any) -> None:
        self.calls.append("compaction")

    def on_agent_assembled(self, app_store: Any, descriptor: Any) -> None:
        self.calls.append(f"assembly {descriptor.namespace}")

    def contribute_middlewares(self, app_store: Any, ctx: AgentBuildContext) -> Sequence[MiddlewarePlacement]:
        kind = "lead" if ctx.scope is AgentScope.LEAD else "subagent"
        return (MiddlewarePlacement(_Noting(self.calls, kind), Placement.MODEL_LOGICAL),)


class _Noting(AgentMiddleware[Any, Any]):
    """Notes every hook it has."""

    def __init__(self, calls: list[str], kind: str) -> None:
        super().__init__()
        self._calls = calls
        self._kind = kind

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        self._note("before_agent")

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        self._note("before_model")

    async def aafter_model(self, state: Any, runtime: Any) -> None:
        self._note("after_model")

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        self._note("after_agent")

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._note("model call")
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self._note(f"tool {request.tool_call['name']}")
        return await handler(request)

    def _note(self, what: str) -> None:
        self._calls.append(f"{what} {self._kind}")


def surrounded(before: Witness, after: Witness, broken: dict[str, Any]) -> LoadedExtensions:
    """A set of the broken contributions between two well-behaved extensions."""
    kinds = (
        "middleware_contributors",
        "task_lifecycle",
        "system_model_observers",
        "agent_assembly_observers",
        "context_compaction_observers",
    )
    first, last = ("before:install", before), ("after:install", after)
    return LoadedExtensions(**{kind: (first, *broken.get(kind, ()), last) for kind in kinds})
