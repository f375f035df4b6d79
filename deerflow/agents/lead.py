"""Build the agents of one host: the lead and its subagents, each once per generation and build context."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from deerflow_extension_api import AgentBuildContext, AgentScope
from langchain.agents.middleware import AgentMiddleware
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.application import application_middlewares, configured_tools
from deerflow.agents.assembly import AgentPlan, Assembly, assemble
from deerflow.agents.file_tools import build_file_tools
from deerflow.agents.guards import todo_list
from deerflow.agents.middlewares.memory_injection import MemoryInjection
from deerflow.agents.prompt import lead_prompt
from deerflow.agents.run_scope import RunScope
from deerflow.agents.scopeless import ScopeFinder
from deerflow.agents.stack import lead_approvals, subagent_approvals
from deerflow.agents.subagents.capacity import SubagentCapacity
from deerflow.agents.subagents.catalogue import SubagentType, subagent_catalogue
from deerflow.agents.subagents.delegate import Crew
from deerflow.agents.system_calls import SystemModels
from deerflow.agents.task_tool import build_task_tool
from deerflow.agents.tool_owners import Complaints, OwnedTool, one_per_name
from deerflow.agents.toolbox import TASK_TOOL_NAME, Toolbox, host_names, host_tools
from deerflow.config.request import RequestOptions
from deerflow.config.schema import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.policy import lead_policy, subagent_policy
from deerflow.tracing import Tracing

MAX_ASSEMBLIES = 64


class Assembler:
    """Assembles agents and keeps the newest `MAX_ASSEMBLIES`. Safe from any thread and event loop."""

    def __init__(
        self,
        config: AppConfig,
        *,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        middlewares: Sequence[AgentMiddleware[Any, Any]] = (),
        tracing: Tracing | None = None,
    ) -> None:
        self.config = config
        self.catalogue = subagent_catalogue(config)
        self.capacity = SubagentCapacity(config.subagents)
        self.system_models = SystemModels(config)
        self.tracing: Tracing | None = None
        self._checkpointer = checkpointer
        self._lead_only = tuple(middlewares)
        self._application = application_middlewares(config)
        self._complaints = Complaints()
        self._reserved = host_names(config.guards)
        self._kept: OrderedDict[Hashable, Assembly] = OrderedDict()
        self._lock = threading.Lock()
        self._tools: list[OwnedTool] = []
        self.add_tools(configured_tools(config))
        self.trace_with(tracing)

    def add_tools(self, tools: Sequence[OwnedTool]) -> None:
        """Offer further tools to agents that are built from now on; a taken name stays its owner's."""
        self._tools = one_per_name([*self._tools, *tools], self._complaints.warn, taken=self._reserved)
        with self._lock:
            self._kept.clear()

    def trace_with(self, tracing: Tracing | None) -> None:
        """Make spans of the calls of agents that are built from now on, and of the host's own."""
        self.tracing = self.system_models.tracing = tracing
        with self._lock:
            self._kept.clear()

    async def lead(self, snapshot: LoadedExtensions, options: RequestOptions) -> Assembly:
        """The lead graph of `snapshot` for these request options."""
        key = ("lead", snapshot, replace(options, goal=None))
        found = self._find(key)
        if found is None:
            found = await asyncio.to_thread(self._build, key, self._lead_plan, snapshot, options)
        return found

    def lead_now(self, snapshot: LoadedExtensions, options: RequestOptions) -> Assembly:
        """The same, built in the calling thread."""
        key = ("lead", snapshot, replace(options, goal=None))
        return self._find(key) or self._build(key, self._lead_plan, snapshot, options)

    async def subagent(self, snapshot: LoadedExtensions, kind: SubagentType, parent: RunScope) -> Assembly:
        """The graph of one subagent type, with the model and options of the run that delegates."""
        options = replace(
            parent.options, goal=None, agent_name=kind.name, subagent_enabled=False, max_total_subagents=None
        )
        key = ("subagent", snapshot, options)
        found = self._find(key)
        if found is None:
            found = await asyncio.to_thread(self._build, key, self._subagent_plan, snapshot, options)
        return found

    def _find(self, key: Hashable) -> Assembly | None:
        found = self._kept.get(key)
        if found is not None:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
        return found

    def _build(
        self,
        key: Hashable,
        plan: Callable[[LoadedExtensions, RequestOptions], AgentPlan],
        snapshot: LoadedExtensions,
        options: RequestOptions,
    ) -> Assembly:
        # One build at a time: contributors need not be safe from several threads.
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                return found
            assembly = assemble(plan(snapshot, options))
            self._kept[key] = assembly
            while len(self._kept) > MAX_ASSEMBLIES:
                self._kept.popitem(last=False)
            return assembly

    def _lead_plan(self, snapshot: LoadedExtensions, options: RequestOptions) -> AgentPlan:
        config = self.config
        scopes = ScopeFinder(config, snapshot)
        own = build_file_tools(scopes.workspace_of)
        persona = config.subagents.custom_agents.get(options.agent_name or "")
        allowed = config.subagents.limits_for(options.agent_name).tools if options.agent_name else None
        may_delegate = options.subagent_enabled and (allowed is None or TASK_TOOL_NAME in allowed)
        catalogue = self.catalogue if may_delegate else None
        if catalogue:
            own.append(build_task_tool(Crew(catalogue, self.capacity, self, self.tracing), scopes))
        prompt = lead_prompt(catalogue)
        return AgentPlan(
            config=config,
            snapshot=snapshot,
            context=AgentBuildContext(
                scope=AgentScope.LEAD,
                agent_name=options.agent_name or "lead_agent",
                model_name=options.model_name or (persona and persona.model) or config.models[0].name,
                policy=lead_policy(config, max_total_subagents=options.max_total_subagents),
            ),
            options=options,
            prompt=f"{persona.system_prompt}\n\n{prompt}" if persona else prompt,
            tools=Toolbox([*host_tools(own), *self._tools], self._reserved, allowed),
            complaints=self._complaints,
            budget=config.token_budget,
            workspace_of=scopes.workspace_of,
            scope_of=scopes.scope_of,
            system_models=self.system_models,
            max_turns=config.guards.max_model_calls,
            approvals=lead_approvals(options.approve_tools),
            todo_list=todo_list(config.guards, allowed),
            memory=[MemoryInjection()] if config.memory.enabled else [],
            application=[*self._application(), *self._lead_only],
            checkpointer=self._checkpointer,
            tracing=self.tracing,
        )

    def _subagent_plan(self, snapshot: LoadedExtensions, options: RequestOptions) -> AgentPlan:
        config = self.config
        kind = self.catalogue[options.agent_name or ""]
        scopes = ScopeFinder(config, snapshot)
        own = build_file_tools(scopes.workspace_of)
        return AgentPlan(
            config=config,
            snapshot=snapshot,
            context=AgentBuildContext(
                scope=AgentScope.SUBAGENT,
                agent_name=kind.name,
                model_name=kind.limits.model or options.model_name or config.models[0].name,
                policy=subagent_policy(config, kind.name),
            ),
            options=options,
            prompt=kind.system_prompt,
            tools=Toolbox([*host_tools(own), *self._tools], self._reserved, kind.limits.tools),
            complaints=self._complaints,
            budget=kind.limits.token_budget,
            max_turns=kind.limits.max_turns,
            workspace_of=scopes.workspace_of,
            scope_of=scopes.scope_of,
            system_models=self.system_models,
            approvals=subagent_approvals(options.approve_tools),
            application=self._application(),
            tracing=self.tracing,
        )
