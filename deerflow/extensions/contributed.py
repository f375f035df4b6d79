"""What a contributed middleware consists of, read once and checked before an agent is built with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from langchain.agents.middleware.types import AgentMiddleware, JumpTo, TracePolicy
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool

from deerflow.errors import DeerFlowError
from deerflow.extensions.diagnostics import error_text, type_name
from deerflow.extensions.hook_names import NODE_HOOKS, WRAP_HOOKS

JUMPS: Final[tuple[JumpTo, ...]] = ("end", "model", "tools")


class RejectedMiddlewareError(DeerFlowError, TypeError):
    """A contributed middleware that no agent can be built with; the text says why."""


@dataclass(frozen=True)
class HookShape:
    """One hook of a middleware class: which sides it has, and where it may jump to."""

    name: str
    has_sync: bool
    has_async: bool
    jumps: tuple[JumpTo, ...] = ()


@dataclass(frozen=True)
class Contributed:
    """A middleware and everything of it that an agent is built from."""

    middleware: AgentMiddleware
    hooks: tuple[HookShape, ...]
    functions: dict[str, Callable[..., Any]]
    tools: Sequence[BaseTool]
    state_schema: type
    transformers: Sequence[Callable[..., Any]]
    trace_policy: TracePolicy | None


def read_contributed(middleware: AgentMiddleware) -> Contributed:
    """Return the parts of `middleware`. Raises `RejectedMiddlewareError` where one cannot be used."""
    hooks = tuple(shape for name in (*NODE_HOOKS, *WRAP_HOOKS) if (shape := _hook_shape(middleware, name)))
    functions: dict[str, Callable[..., Any]] = {}
    for shape in hooks:
        if shape.has_sync:
            functions[shape.name] = _read(middleware, shape.name)
        if shape.has_async:
            functions[f"a{shape.name}"] = _read(middleware, f"a{shape.name}")
    return Contributed(
        middleware=middleware,
        hooks=hooks,
        functions=functions,
        tools=_tools(_read(middleware, "tools", ())),
        state_schema=_state_schema(_read(middleware, "state_schema")),
        transformers=_transformers(_read(middleware, "transformers")),
        trace_policy=_trace_policy(_read(middleware, "trace_policy")),
    )


def _hook_shape(middleware: AgentMiddleware, name: str) -> HookShape | None:
    own = {side: _own_function(type(middleware), side) for side in (name, f"a{name}")}
    functions = [function for function in own.values() if function is not None]
    if not functions:
        return None
    return HookShape(
        name,
        has_sync=own[name] is not None,
        has_async=own[f"a{name}"] is not None,
        jumps=next((jumps for function in functions if (jumps := _jumps(name, function))), ()),
    )


def _own_function(cls: type, side: str) -> Any:
    """Return the hook where the class has its own, None where it is the base class's empty one."""
    function = _read(cls, side)
    return None if function is getattr(AgentMiddleware, side) else function


def _jumps(name: str, function: Any) -> tuple[JumpTo, ...]:
    declared = _read(function, "__can_jump_to__", ())
    if not isinstance(declared, (list, tuple)):
        raise RejectedMiddlewareError(
            f"can_jump_to of {name} is {type_name(declared)}, expected a list of names"
        )
    return tuple(jump for jump in JUMPS if jump in [item for item in declared if isinstance(item, str)])


def _tools(tools: Any) -> list[BaseTool]:
    if not isinstance(tools, (list, tuple)):
        raise RejectedMiddlewareError(f"its tools are {type_name(tools)}, expected a list of tools")
    return [_tool(tool) for tool in tools]


def _tool(tool: Any) -> BaseTool:
    if isinstance(tool, BaseTool):
        return tool
    if isinstance(tool, type) or not callable(tool):
        raise RejectedMiddlewareError(f"its tools hold {type_name(tool)}, expected tools or functions")
    try:
        made: BaseTool = make_tool(tool)
    except Exception as error:
        raise RejectedMiddlewareError(f"no tool can be made of its function: {error_text(error)}") from error
    return made


def _state_schema(schema: Any) -> type:
    if not isinstance(schema, type):
        raise RejectedMiddlewareError(f"its state_schema is {type_name(schema)}, expected a TypedDict class")
    try:
        get_type_hints(schema, include_extras=True)
    except Exception as error:
        raise RejectedMiddlewareError(f"its state_schema cannot be read: {error_text(error)}") from error
    return schema


def _transformers(transformers: Any) -> list[Callable[..., Any]]:
    if not isinstance(transformers, (list, tuple)) or not all(map(callable, transformers)):
        raise RejectedMiddlewareError(
            f"its transformers are {type_name(transformers)}, expected a list of factories"
        )
    return list(transformers)


def _trace_policy(policy: Any) -> TracePolicy | None:
    if policy is not None and not isinstance(policy, TracePolicy):
        raise RejectedMiddlewareError(
            f"its trace_policy is {type_name(policy)}, expected a TracePolicy or None"
        )
    return policy


def _read(owner: Any, attribute: str, *default: Any) -> Any:
    try:
        return getattr(owner, attribute, *default)
    except Exception as error:
        raise RejectedMiddlewareError(f"its {attribute} cannot be read: {error_text(error)}") from error
