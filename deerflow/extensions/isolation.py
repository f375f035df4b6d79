"""Contributed middlewares, each inside a wrapper that keeps its failures from the run.

The wrapper shows `create_agent` the hooks, tools, state and transformers of the middleware in it, and nothing
else. Its node hooks may update the state; its wrap hooks look on while the host does what it would do anyway.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, Final

from deerflow_extension_api import WRAPPED_MIDDLEWARE_ATTRIBUTE
from langchain.agents.middleware.types import AgentMiddleware, hook_config
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from deerflow.extensions.contributed import Contributed, HookShape, read_contributed
from deerflow.extensions.diagnostics import type_name
from deerflow.extensions.hook_names import WRAP_HOOKS
from deerflow.extensions.hook_runs import AsyncThreadRun, TaskRun
from deerflow.extensions.isolation_hooks import Isolation, Report, WrapCall
from deerflow.extensions.state_keys import StateKeys
from deerflow.extensions.state_updates import NodeCall

_INJECTED: Final = ("config", "previous", "runtime", "store", "writer")
_NAMED_KINDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def isolate(
    source: str,
    middleware: AgentMiddleware,
    *,
    name: str,
    hook_timeout_seconds: float,
    report: Report,
    state_keys: StateKeys | None = None,
) -> IsolatedMiddleware:
    """Return `middleware` inside a wrapper that is safe to give to `create_agent`, under `name`.

    `state_keys` are those of all contributed middlewares of the agent; its own are added by whoever keeps it.
    A hook that is only synchronous runs in a thread for an async run; one that is only async is left out of a
    synchronous run. Raises `RejectedMiddlewareError` where no agent can be built with it.
    """
    contributed = read_contributed(middleware)
    isolation = Isolation(source, type_name(middleware), hook_timeout_seconds, report)
    kind = _wrapper_class(contributed.hooks)
    return kind(name, isolation, contributed, state_keys or StateKeys())


class IsolatedMiddleware(AgentMiddleware):
    """A contributed middleware, `inner`, and the entry point that it came from, `source`.

    The class of each instance is made for the hooks that the inner one has: `create_agent` looks there.
    """

    def __init__(
        self, name: str, isolation: Isolation, contributed: Contributed, state_keys: StateKeys
    ) -> None:
        self._name = name
        self._state_keys = state_keys
        self._isolation = isolation
        self._functions = contributed.functions
        self._arguments = {hook: _injected(function) for hook, function in contributed.functions.items()}
        self._missed_sides: set[str] = set()
        self.source = isolation.source
        self.tools = contributed.tools
        self.state_schema = contributed.state_schema
        self.transformers = contributed.transformers
        self.trace_policy = contributed.trace_policy
        setattr(self, WRAPPED_MIDDLEWARE_ATTRIBUTE, contributed.middleware)

    @property
    def name(self) -> str:
        return self._name

    @property
    def inner(self) -> AgentMiddleware:
        """The contributed middleware itself."""
        inner: AgentMiddleware = getattr(self, WRAPPED_MIDDLEWARE_ATTRIBUTE)
        return inner

    def node(self, hook: str, state: Any, runtime: Runtime[Any], config: RunnableConfig) -> Any:
        """Run a node hook of a synchronous run."""
        function = self._functions.get(hook)
        if function is None:
            self._miss_side(hook)
            return None
        arguments = self._arguments_of(hook, runtime, config)
        called = NodeCall(state, config, self._state_keys)
        return self._isolation.node(hook, lambda: function(state, **arguments), called)

    async def anode(self, hook: str, state: Any, runtime: Runtime[Any], config: RunnableConfig) -> Any:
        """Run a node hook of an async run, its synchronous side in a thread where it has no other."""
        side, run = self._async_run(hook)
        function = self._functions[side]
        arguments = self._arguments_of(side, runtime, config)
        called = NodeCall(state, config, self._state_keys)
        return await self._isolation.anode(side, run, lambda: function(state, **arguments), called)

    def wrap(self, hook: str, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run a wrap hook of a synchronous run; one that is only async is passed by."""
        function = self._functions.get(hook)
        if function is None:
            return handler(request)
        return self._isolation.wrap(WrapCall.of(hook, function, request, handler))

    def awrap(self, hook: str, request: Any, handler: Callable[[Any], Any]) -> Coroutine[Any, Any, Any]:
        """Run a wrap hook of an async run, its synchronous side in a thread where it has no other."""
        side, run = self._async_run(hook)
        return self._isolation.awrap(run, WrapCall.of(side, self._functions[side], request, handler))

    def _async_run(self, hook: str) -> tuple[str, TaskRun | AsyncThreadRun]:
        if f"a{hook}" in self._functions:
            return f"a{hook}", TaskRun(self.source, f"{self._isolation.class_name}.a{hook}")
        return hook, AsyncThreadRun(self._isolation.lane)

    def _arguments_of(self, hook: str, runtime: Runtime[Any], config: RunnableConfig) -> dict[str, Any]:
        """Return what LangGraph would inject into this hook, None where there is no such thing."""
        offered = {
            "config": config,
            "previous": runtime.previous,
            "runtime": runtime,
            "store": runtime.store,
            "writer": runtime.stream_writer,
        }
        return {name: offered[name] for name in self._arguments[hook]}

    def _miss_side(self, hook: str) -> None:
        if hook not in self._missed_sides:
            self._missed_sides.add(hook)
            self._isolation.skipped(f"a{hook}", f"it has no synchronous side; define {hook} as well")


def _injected(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the arguments that a node hook names and LangGraph can give it, besides the state."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        return ("runtime",)
    return tuple(p.name for p in parameters if p.name in _INJECTED and p.kind in _NAMED_KINDS)


@lru_cache(maxsize=512)
def _wrapper_class(hooks: tuple[HookShape, ...]) -> type[IsolatedMiddleware]:
    """Return the class that shows exactly these hooks, each with both sides."""
    faces: dict[str, Any] = {}
    for shape in hooks:
        make_sync, make_async = _WRAP_FACES if shape.name in WRAP_HOOKS else _NODE_FACES
        for face_name, face in (
            (shape.name, make_sync(shape.name)),
            (f"a{shape.name}", make_async(shape.name)),
        ):
            if shape.jumps:
                face = hook_config(can_jump_to=list(shape.jumps))(face)
            faces[face_name] = face
    return type(IsolatedMiddleware.__name__, (IsolatedMiddleware,), faces)


def _node_face(hook: str) -> Callable[..., Any]:
    def run(self: IsolatedMiddleware, state: Any, runtime: Runtime[Any], config: RunnableConfig) -> Any:
        return self.node(hook, state, runtime, config)

    return run


def _async_node_face(hook: str) -> Callable[..., Any]:
    async def run(self: IsolatedMiddleware, state: Any, runtime: Runtime[Any], config: RunnableConfig) -> Any:
        return await self.anode(hook, state, runtime, config)

    return run


def _wrap_face(hook: str) -> Callable[..., Any]:
    def run(self: IsolatedMiddleware, request: Any, handler: Callable[[Any], Any]) -> Any:
        return self.wrap(hook, request, handler)

    return run


def _async_wrap_face(hook: str) -> Callable[..., Any]:
    def run(
        self: IsolatedMiddleware, request: Any, handler: Callable[[Any], Any]
    ) -> Coroutine[Any, Any, Any]:
        return self.awrap(hook, request, handler)

    return run


_NODE_FACES: Final = (_node_face, _async_node_face)
_WRAP_FACES: Final = (_wrap_face, _async_wrap_face)
