"""The application's own middlewares and tools, as the configuration names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool
from pydantic import ValidationError

from deerflow.agents.tool_owners import ALLOWED_NAMES, OwnedTool, ToolOwner, is_tool_name
from deerflow.agents.tool_sides import both_sided
from deerflow.config.problems import dotted
from deerflow.config.reference import import_reference
from deerflow.config.schema import AppConfig, ToolRecord
from deerflow.errors import ConfigError

Middleware = AgentMiddleware[Any, Any]


def application_middlewares(config: AppConfig) -> Callable[[], list[Middleware]]:
    """A function that makes one new instance of each of `extensions.middlewares`, in order."""
    classes = []
    for index, use in enumerate(config.extensions.middlewares):
        where = f"extensions.middlewares[{index}]"
        found = import_reference(use, where=where, example="my_package.middlewares:Audit")
        if not (isinstance(found, type) and issubclass(found, AgentMiddleware)):
            raise ConfigError(f"{where}: {use!r} is no AgentMiddleware class; name a class")
        classes.append((where, use, found))
    return lambda: [_instance(*entry) for entry in classes]


def configured_tools(config: AppConfig) -> list[OwnedTool]:
    """The tools of `tools:`, in order. `ConfigError` for what is no tool, or has no name of one."""
    tools = []
    for index, record in enumerate(config.tools):
        where = f"tools[{index}].use"
        found = import_reference(record.use, where=where, example="my_package.tools:search")
        if isinstance(found, type) and issubclass(found, BaseTool):
            found = _tool_of(found, record, where)
        elif record.config:
            raise ConfigError(f"tools[{index}].config: {record.use!r} is no class; take the keys out")
        if not isinstance(found, BaseTool):
            raise ConfigError(
                f"{where}: {record.use!r} is a {type(found).__name__}; "
                "name a LangChain tool, for example a function under @tool, or a class of tools"
            )
        if not is_tool_name(found.name):
            raise ConfigError(
                f"{where}: the tool {record.use!r} is named {found.name[:100]!r}; a name is {ALLOWED_NAMES}"
            )
        owner = ToolOwner(f"tools[{index}] ({record.use})", "config")
        tools.append(OwnedTool(both_sided(found), owner))
    return tools


def _tool_of(tool_class: type[BaseTool], record: ToolRecord, where: str) -> BaseTool:
    keys = ", ".join(record.config) or "none"
    try:
        return tool_class(**record.fresh_kwargs())
    except ValidationError as error:  # its own text would show values, which may be secret
        problems = error.errors(include_url=False, include_input=False)
        said = "; ".join(f"{dotted(problem['loc'])}: {problem['msg']}" for problem in problems)
        raise ConfigError(f"{where}: {record.use!r} refuses its keys ({keys}): {said}") from error
    except Exception as error:  # a class of anyone's may fail in any way
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{where}: {record.use!r} cannot be made of its keys ({keys}): {said}") from error


def _instance(where: str, use: str, middleware_class: type[Middleware]) -> Middleware:
    try:
        return middleware_class()
    except Exception as error:  # an application's constructor may fail in any way
        raise ConfigError(f"{where}: {use!r} cannot be made: {type(error).__name__}: {error}") from error
