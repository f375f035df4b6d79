"""Every wrap hook of a stack inside one middleware, as plain nested calls.

`create_agent` sends each wrap hook through a tracer that costs two thread hops even when nothing is traced;
folded, the whole stack takes one such step, and without the hops. `before_*` and `after_*` hooks stay nodes
of the graph, so that interrupts, `jump_to` and reducers mean what LangChain says.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

from langchain.agents.middleware.types import AgentMiddleware, TracePolicy, omit_payload
from langchain_core.tools import BaseTool

from deerflow.agents.hook_bridge import run_async_hook, run_sync_hook
from deerflow.agents.wrap_chain import (
    AsyncHandler,
    AsyncHook,
    Handler,
    Hook,
    async_model_chain,
    async_tool_chain,
    model_chain,
    tool_chain,
)
from deerflow.extensions.hook_names import NODE_HOOKS, PLAIN_SCHEMAS, WRAP_HOOKS, has_hook, has_side


def fold(stack: Sequence[AgentMiddleware], *, with_tools: bool = True) -> list[AgentMiddleware]:
    """Return middlewares for `create_agent` that do what `stack` does, with all wrap hooks in one of them.

    That one comes first and is missing where nothing wraps. A middleware with node hooks follows in its place
    without its wrap hooks; one that only wraps leaves its tools, state and transformers, if it has any.
    A hook with one side only works on both: a synchronous one in a thread, an async one on the side loop.
    Without `with_tools` no tool is left: whoever builds the agent gives it those of the middlewares.
    """
    folded = [shown for middleware in stack if (shown := _shown(middleware, with_tools)) is not None]
    model = [middleware for middleware in stack if has_hook(middleware, "wrap_model_call")]
    tool = [middleware for middleware in stack if has_hook(middleware, "wrap_tool_call")]
    if not model and not tool:
        return folded
    kind = _FoldedBoth if model and tool else _FoldedModel if model else _FoldedTool
    name = _free_name("WrapHooks", {middleware.name for middleware in folded})
    return [kind(name, model, tool), *folded]


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


class _Folded(AgentMiddleware):
    """All wrap hooks of a stack. Its spans are empty: what happens inside is not one hook's doing."""

    trace_policy = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)

    def __init__(self, name: str, model: Sequence[AgentMiddleware], tool: Sequence[AgentMiddleware]) -> None:
        self._name = name
        if model:
            self._model = model_chain([_sync_side(m, "wrap_model_call") for m in model])
            self._amodel = async_model_chain([_async_side(m, "wrap_model_call") for m in model])
        if tool:
            self._tool = tool_chain([_sync_side(m, "wrap_tool_call") for m in tool])
            self._atool = async_tool_chain([_async_side(m, "wrap_tool_call") for m in tool])

    @property
    def name(self) -> str:
        return self._name


class _FoldedModel(_Folded):
    def wrap_model_call(self, request: Any, handler: Handler) -> Any:
        return self._model(request, handler)

    # Not `async def`: the tracer around it would take that as leave to hop through threads.
    def awrap_model_call(self, request: Any, handler: AsyncHandler) -> Coroutine[Any, Any, Any]:
        return self._amodel(request, handler)


class _FoldedTool(_Folded):
    def wrap_tool_call(self, request: Any, handler: Handler) -> Any:
        return self._tool(request, handler)

    def awrap_tool_call(self, request: Any, handler: AsyncHandler) -> Coroutine[Any, Any, Any]:
        return self._atool(request, handler)


class _FoldedBoth(_FoldedModel, _FoldedTool):
    pass


def _sync_side(middleware: AgentMiddleware, hook: str) -> Hook:
    if has_side(middleware, hook):
        return cast(Hook, getattr(middleware, hook))
    return partial(run_async_hook, getattr(middleware, f"a{hook}"))


def _async_side(middleware: AgentMiddleware, hook: str) -> AsyncHook:
    if has_side(middleware, f"a{hook}"):
        return cast(AsyncHook, getattr(middleware, f"a{hook}"))
    return partial(run_sync_hook, getattr(middleware, hook))


def _shown(middleware: AgentMiddleware, with_tools: bool) -> AgentMiddleware | None:
    """Return what `create_agent` still has to see of a middleware, None where that is nothing."""
    tools = getattr(middleware, "tools", ())
    if not has_hook(middleware, *WRAP_HOOKS) and (with_tools or not tools):
        return middleware
    sides = [side for hook in NODE_HOOKS for side in (hook, f"a{hook}")]
    hooks = [side for side in sides if has_side(middleware, side)]
    plain = middleware.state_schema in PLAIN_SCHEMAS
    shown_tools = tools if with_tools else ()
    if not hooks and plain and not shown_tools and not middleware.transformers:
        return None
    shown = {hook: _InnerHook(hook, getattr(type(middleware), hook)) for hook in hooks}
    kind: type[_WithoutWraps] = type(type(middleware).__name__, (_WithoutWraps,), shown)
    return kind(middleware, shown_tools)


class _WithoutWraps(AgentMiddleware):
    """A middleware whose wrap hooks run elsewhere; each subclass has the node hooks of one class."""

    def __init__(self, inner: AgentMiddleware, tools: Sequence[BaseTool]) -> None:
        self.inner = inner
        self.tools = tools
        self.state_schema = inner.state_schema
        self.transformers = inner.transformers
        self.trace_policy = inner.trace_policy

    @property
    def name(self) -> str:
        return self.inner.name


class _InnerHook:
    """An inner middleware's own hook: its function on the class, its bound method on the instance."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        self._function = function

    def __get__(self, shown: _WithoutWraps | None, owner: type) -> Callable[..., Any]:
        if shown is None:
            return self._function
        return cast(Callable[..., Any], getattr(shown.inner, self._name))
