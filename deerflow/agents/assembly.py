"""Compile one agent from its plan: middlewares placed and folded, graph built, observers told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from deerflow_extension_api import AgentBuildContext, AgentScope
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

from deerflow.agents.descriptor import AssemblyFacts, describe
from deerflow.agents.file_tools import WorkspaceFinder
from deerflow.agents.fold import fold
from deerflow.agents.middlewares.compaction import Compacting, Compaction
from deerflow.agents.middlewares.compaction_sizes import usable_sizes
from deerflow.agents.middlewares.traced_calls import TracedCalls
from deerflow.agents.run_scope import RunScope
from deerflow.agents.stack import StackPlan, build_stack
from deerflow.agents.system_calls import SystemModels
from deerflow.agents.tool_owners import Complaints, OwnedTool
from deerflow.agents.toolbox import Toolbox, brought_tools
from deerflow.config.limits import TokenBudgetConfig
from deerflow.config.request import RequestOptions
from deerflow.config.schema import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.observations import notify_assembly
from deerflow.extensions.placement import collect_placements
from deerflow.models import build_chat_model
from deerflow.tracing import Tracing

logger = logging.getLogger(__name__)


# LangGraph's server drops every key that is not named here; on Python 3.11 it does so only for the
# TypedDict of typing_extensions.
class AgentContext(TypedDict, total=False):
    """What a caller may put into a run's context."""

    model_name: str
    agent_name: str
    thinking_enabled: bool
    reasoning_effort: str
    subagent_enabled: bool
    max_total_subagents: int
    goal: str
    approve_tools: list[str]


@dataclass(frozen=True)
class AgentPlan:
    """Everything that decides how one agent is built."""

    config: AppConfig
    snapshot: LoadedExtensions
    context: AgentBuildContext
    options: RequestOptions
    prompt: str
    tools: Toolbox
    complaints: Complaints
    budget: TokenBudgetConfig
    workspace_of: WorkspaceFinder
    scope_of: Callable[[Any], RunScope]
    system_models: SystemModels
    max_turns: int | None = None
    approvals: Sequence[AgentMiddleware[Any, Any]] = ()
    todo_list: Sequence[AgentMiddleware[Any, Any]] = ()
    memory: Sequence[AgentMiddleware[Any, Any]] = ()
    application: Sequence[AgentMiddleware[Any, Any]] = ()
    checkpointer: BaseCheckpointSaver[Any] | None = None
    tracing: Tracing | None = None


@dataclass(frozen=True, eq=False)
class Assembly:
    """A compiled agent, good for any number of runs on its snapshot."""

    graph: CompiledStateGraph[Any, Any, Any, Any]
    model_name: str
    snapshot: LoadedExtensions


def assemble(plan: AgentPlan) -> Assembly:
    """Build the agent. Raises where the host's own stack would be out of order, or a model is unknown."""
    options = plan.options
    model = build_chat_model(
        plan.config,
        plan.context.model_name,
        thinking_enabled=options.thinking_enabled,
        reasoning_effort=options.reasoning_effort,
    )
    placements = collect_placements(
        plan.snapshot,
        plan.context,
        hook_timeout_seconds=plan.config.extensions.hook_timeout_seconds,
    )
    stack = build_stack(
        StackPlan(
            config=plan.config,
            placements=placements,
            budget=plan.budget,
            max_turns=plan.max_turns,
            approvals=plan.approvals,
            todo_list=plan.todo_list,
            compaction=_compaction(plan, model),
            memory=plan.memory,
            application=plan.application,
            tracing=_tracing(plan),
            workspace_of=plan.workspace_of,
        )
    )
    brought = brought_tools(stack, placements, plan.application)
    tools = plan.tools.with_brought(brought, plan.complaints.of(plan.snapshot))
    _warn_of_missing(plan, tools)
    graph: CompiledStateGraph[Any, Any, Any, Any] = create_agent(
        model,
        [owned.tool for owned in tools],
        system_prompt=plan.prompt,
        middleware=fold(stack, with_tools=False),
        context_schema=AgentContext,
        checkpointer=plan.checkpointer,
        name=plan.context.agent_name,
    )
    record = next(r for r in plan.config.models if r.name == plan.context.model_name)
    if plan.snapshot.agent_assembly_observers:
        facts = AssemblyFacts(plan.context, options, record, plan.prompt, tools, stack, placements)
        notify_assembly(plan.snapshot, describe(facts))
    return Assembly(graph, record.name, plan.snapshot)


def _warn_of_missing(plan: AgentPlan, tools: Sequence[OwnedTool]) -> None:
    """A misspelt name leaves a tool without the approval meant for it, or an agent without its tool."""
    names = {owned.name for owned in tools}
    missing = set(plan.options.approve_tools) - names
    if missing and plan.context.scope is AgentScope.LEAD:
        logger.warning("approve_tools names what the agent has not: %s", ", ".join(sorted(missing)))
    unknown = set(plan.tools.allowed or ()) - names - plan.tools.reserved.keys()
    if unknown:
        agent = plan.context.agent_name
        logger.warning("the tools of agent %r name what there is not: %s", agent, ", ".join(sorted(unknown)))


def _tracing(plan: AgentPlan) -> list[TracedCalls]:
    if plan.tracing is None:
        return []
    return [TracedCalls(plan.tracing, plan.context.model_name or plan.config.models[0].name)]


def _compaction(plan: AgentPlan, model: BaseChatModel) -> list[Compaction]:
    section = plan.config.summarization
    if not section.enabled:
        return []
    name = plan.context.model_name or plan.config.models[0].name
    trigger, keep = usable_sizes(section, model, name)
    if not trigger:
        return []
    writer = section.model_name or name
    return [Compaction(Compacting(trigger, keep, model, writer, plan.system_models, plan.scope_of))]
