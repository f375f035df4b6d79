"""Describe an assembled agent for the assembly observers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    AgentBuildContext,
    AgentScope,
    MiddlewareDescriptor,
    ToolDescriptor,
    canonical_hash,
    collect_release_policies,
)
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool
from pydantic import TypeAdapter

from deerflow.agents.tool_owners import OwnedTool
from deerflow.config.request import RequestOptions
from deerflow.config.schema import ModelRecord
from deerflow.extensions.placement import Placements

_SECRET = re.compile(r"api_?key|secret|password|credential|authorization|headers?$|token$", re.IGNORECASE)


@dataclass(frozen=True)
class AssemblyFacts:
    """What was decided while one agent was assembled."""

    context: AgentBuildContext
    options: RequestOptions
    model: ModelRecord
    prompt: str
    tools: Sequence[OwnedTool]
    stack: Sequence[AgentMiddleware[Any, Any]]
    placements: Placements


def describe(facts: AssemblyFacts) -> AgentAssemblyDescriptor:
    """The descriptor of one assembly. Secrets of a model record never reach it."""
    policies = collect_release_policies(facts.stack)
    return AgentAssemblyDescriptor(
        namespace="subagent" if facts.context.scope is AgentScope.SUBAGENT else "lead",
        agent_name=facts.context.agent_name,
        requested_model=facts.options.model_name,
        effective_model=facts.model.name,
        model_parameters=_model_parameters(facts.model),
        thinking_enabled=bool(facts.options.thinking_enabled and facts.model.supports_thinking),
        reasoning_effort=facts.options.reasoning_effort,
        base_prompt_hash=canonical_hash(facts.prompt),
        tools=tuple(map(_tool, facts.tools)),
        middlewares=tuple(_middleware(item, facts.placements) for item in facts.stack),
        deferred_tool_names=(),
        enabled_skills=(),
        effective_policies={"host": asdict(facts.context.policy), **policies},
        build={"deerflow": version("deerflow"), "langchain": version("langchain")},
    )


def _model_parameters(model: ModelRecord) -> dict[str, Any]:
    parameters = {"use": model.use, **(model.model_extra or {})}
    return {key: _jsonable(value) for key, value in parameters.items() if not _SECRET.search(key)}


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items() if not _SECRET.search(str(key))}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _tool(owned: OwnedTool) -> ToolDescriptor:
    tool, owner = owned.tool, owned.owner
    return ToolDescriptor(
        name=tool.name,
        description_hash=canonical_hash(tool.description),
        schema_hash=_schema_hash(tool),
        source=owner.source,
        mcp_server=owner.mcp_server,
        mcp_transport=owner.mcp_transport,
    )


def _schema_hash(tool: BaseTool) -> str:
    """The hash of what a model is told of the arguments; no observer must keep an agent from being made."""
    try:
        schema = tool.tool_call_schema
        schema_json = schema if isinstance(schema, dict) else TypeAdapter(schema).json_schema()
    except Exception as error:  # noqa: BLE001 - foreign types; such a tool may work all the same
        return canonical_hash(f"{type(error).__name__}: {error}")
    try:
        return canonical_hash(schema_json)
    except (TypeError, ValueError):  # a default that JSON cannot hold
        return canonical_hash(repr(schema_json))


def _middleware(item: AgentMiddleware[Any, Any], placements: Placements) -> MiddlewareDescriptor:
    origin = placements.origin_of(item)
    inner = item if origin is None else origin.inner
    return MiddlewareDescriptor(
        name=type(inner).__name__,
        module=type(inner).__module__,
        policy_parameters=next(iter(collect_release_policies([inner]).values()), {}),
        extension=None if origin is None else origin.source,
    )
