"""The middlewares and tools that an extension would contribute to the lead agent and to subagents."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from deerflow_extension_api import AgentBuildContext, AgentScope, Placement

from deerflow.agents.subagents.catalogue import GENERAL_PURPOSE
from deerflow.agents.tool_owners import OwnedTool, ToolOwner, one_per_name
from deerflow.agents.toolbox import brought_tools, host_names
from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.diagnostics import report, type_name
from deerflow.extensions.placement import Placements, collect_placements
from deerflow.extensions.policy import lead_policy, subagent_policy


def build_contexts(config: AppConfig) -> Mapping[str, AgentBuildContext]:
    """The contexts that contributors meet on every host: the lead's and the built-in subagent's."""
    model = config.models[0].name
    subagent = subagent_policy(config, GENERAL_PURPOSE)
    return {
        "lead": AgentBuildContext(AgentScope.LEAD, "lead_agent", model, lead_policy(config)),
        "subagents": AgentBuildContext(AgentScope.SUBAGENT, GENERAL_PURPOSE, model, subagent),
    }


class MiddlewareTable:
    """What was contributed so far; later entries are checked against earlier ones."""

    def __init__(self, config: AppConfig) -> None:
        self._contexts = build_contexts(config)
        self._reserved = host_names(config.guards)
        self._tools: dict[str, list[OwnedTool]] = {agent: [] for agent in self._contexts}

    def add(self, extensions: LoadedExtensions) -> list[str]:
        """Return lines such as `middleware Audit (tool_visible; lead, subagents)`.

        What the host would refuse becomes diagnostics of the set, once.
        """
        agents: dict[str, list[str]] = {}
        for agent, context in self._contexts.items():
            placements = collect_placements(extensions, context, hook_timeout_seconds=1.0)
            for placement in Placement:
                for middleware in placements.at(placement):
                    name = f"middleware {type_name(middleware.inner)} ({placement.value}"
                    agents.setdefault(name, []).append(agent)
            self._add_tools(agent, placements, extensions)
        # Once what is said of the lead agent and of subagents alike.
        extensions.diagnostics[:] = list(dict.fromkeys(extensions.diagnostics))
        return [f"{name}; {', '.join(dict.fromkeys(named))})" for name, named in agents.items()]

    def _add_tools(self, agent: str, placements: Placements, extensions: LoadedExtensions) -> None:
        stack = [middleware for placement in Placement for middleware in placements.at(placement)]
        offers = [*self._tools[agent], *brought_tools(stack, placements, ())]
        complain = partial(_complain, extensions)
        self._tools[agent] = one_per_name(offers, complain, taken=self._reserved)


def _complain(extensions: LoadedExtensions, owner: ToolOwner, message: str) -> None:
    report(extensions.diagnostics, "error", owner.source, message)
