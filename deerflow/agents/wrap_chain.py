"""Wrap hooks as nested calls, composed once per graph, with the meaning that LangChain gives them.

The first hook is the outermost. Its handler gives a hook a `ModelResponse`, whatever the inner ones return;
commands add up innermost first, and a handler that is called again forgets those of the call before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
from langchain_core.messages import AIMessage
from langgraph.types import Command

Handler: TypeAlias = Callable[[Any], Any]
AsyncHandler: TypeAlias = Callable[[Any], Awaitable[Any]]
Hook: TypeAlias = Callable[[Any, Handler], Any]
AsyncHook: TypeAlias = Callable[[Any, AsyncHandler], Coroutine[Any, Any, Any]]

Answer: TypeAlias = tuple[Any, list[Command[Any]]]
"""A model response and the commands of all hooks up to here, innermost first."""


def model_chain(hooks: Sequence[Hook]) -> Hook:
    """Return `(request, handler)` through all hooks; it answers as one LangChain hook may."""
    *outer, innermost = hooks
    layer = _innermost_layer(innermost)
    for hook in reversed(outer):
        layer = _model_layer(hook, layer)

    def run(request: Any, handler: Handler) -> Any:
        return _as_one_result(*layer(request, handler))

    return run


def async_model_chain(hooks: Sequence[AsyncHook]) -> AsyncHook:
    """Return the same as `model_chain`, to be awaited."""
    *outer, innermost = hooks
    layer = _async_innermost_layer(innermost)
    for hook in reversed(outer):
        layer = _async_model_layer(hook, layer)

    async def run(request: Any, handler: AsyncHandler) -> Any:
        return _as_one_result(*await layer(request, handler))

    return run


def tool_chain(hooks: Sequence[Hook]) -> Hook:
    """Return `(request, handler)` through all hooks."""
    *outer, chain = hooks
    for hook in reversed(outer):
        chain = _tool_layer(hook, chain)
    return chain


def async_tool_chain(hooks: Sequence[AsyncHook]) -> AsyncHook:
    """Return the same as `tool_chain`, to be awaited."""
    *outer, chain = hooks
    for hook in reversed(outer):
        chain = _async_tool_layer(hook, chain)
    return chain


def _innermost_layer(hook: Hook) -> Callable[[Any, Handler], Answer]:
    def run(request: Any, handler: Handler) -> Answer:
        return _answer(hook(request, handler), [])

    return run


def _async_innermost_layer(hook: AsyncHook) -> Callable[[Any, AsyncHandler], Awaitable[Answer]]:
    async def run(request: Any, handler: AsyncHandler) -> Answer:
        return _answer(await hook(request, handler), [])

    return run


def _model_layer(hook: Hook, inner: Callable[[Any, Handler], Answer]) -> Callable[[Any, Handler], Answer]:
    def run(request: Any, handler: Handler) -> Answer:
        commands: list[Command[Any]] = []

        def call_inner(changed: Any) -> Any:
            commands.clear()
            response, inner_commands = inner(changed, handler)
            commands.extend(inner_commands)
            return response

        return _answer(hook(request, call_inner), commands)

    return run


def _async_model_layer(
    hook: AsyncHook, inner: Callable[[Any, AsyncHandler], Awaitable[Answer]]
) -> Callable[[Any, AsyncHandler], Awaitable[Answer]]:
    async def run(request: Any, handler: AsyncHandler) -> Answer:
        commands: list[Command[Any]] = []

        async def call_inner(changed: Any) -> Any:
            commands.clear()
            response, inner_commands = await inner(changed, handler)
            commands.extend(inner_commands)
            return response

        return _answer(await hook(request, call_inner), commands)

    return run


def _tool_layer(hook: Hook, inner: Hook) -> Hook:
    def run(request: Any, handler: Handler) -> Any:
        return hook(request, lambda changed: inner(changed, handler))

    return run


def _async_tool_layer(hook: AsyncHook, inner: AsyncHook) -> AsyncHook:
    async def run(request: Any, handler: AsyncHandler) -> Any:
        async def call_inner(changed: Any) -> Any:
            return await inner(changed, handler)

        return await hook(request, call_inner)

    return run


def _answer(result: Any, commands: list[Command[Any]]) -> Answer:
    if isinstance(result, AIMessage):
        return ModelResponse(result=[result]), commands
    if isinstance(result, ExtendedModelResponse):
        if result.command is not None:
            commands = [*commands, result.command]
        return result.model_response, commands
    return result, commands


def _as_one_result(response: Any, commands: list[Command[Any]]) -> Any:
    if not commands:
        return response
    return ExtendedModelResponse(model_response=response, command=_as_one_command(commands))


def _as_one_command(commands: list[Command[Any]]) -> Command[Any]:
    """Return one command that does what all of them do, as a hook's answer has room for one only."""
    if len(commands) == 1:
        return commands[0]
    for command in commands:
        if command.goto or command.resume or command.graph:
            return command  # LangChain refuses it, and its message is about this one
    return Command(update=[pair for command in commands for pair in _update_pairs(command.update)])


def _update_pairs(update: Any) -> list[tuple[str, Any]]:
    if update is None:
        return []
    if isinstance(update, dict):
        return list(update.items())
    if isinstance(update, (list, tuple)) and all(
        isinstance(item, tuple) and len(item) == 2 for item in update
    ):
        return list(update)
    fields = [name for cls in type(update).__mro__ for name in getattr(cls, "__annotations__", {})]
    return [(name, getattr(update, name)) for name in dict.fromkeys(fields) if hasattr(update, name)]
