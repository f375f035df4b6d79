"""The middlewares that an extension would contribute to the lead agent and to subagents."""

from __future__ import annotations

from typing import Final

from deerflow_extension_api import AgentBuildContext, AgentScope

from deerflow.extensions import LoadedExtensions
from deerflow.extensions.contributions import collect_contributions
from deerflow.extensions.diagnostics import type_name

_AGENTS: Final = {AgentScope.LEAD: "lead", AgentScope.SUBAGENT: "subagents"}


def list_middlewares(extensions: LoadedExtensions) -> list[str]:
    """Return lines such as `middleware Audit (tool_visible; lead, subagents)`.

    What the host would refuse becomes diagnostics of the set, once.
    """
    agents: dict[str, list[str]] = {}
    for scope, agent in _AGENTS.items():
        for contribution in collect_contributions(
            extensions, AgentBuildContext(scope), hook_timeout_seconds=1.0
        ):
            name = f"middleware {type_name(contribution.middleware.inner)} ({contribution.placement.value}"
            agents.setdefault(name, []).append(agent)
    _drop_repeated(extensions)
    return [f"{name}; {', '.join(dict.fromkeys(named))})" for name, named in agents.items()]


def _drop_repeated(extensions: LoadedExtensions) -> None:
    """Say once what is said of the lead agent and of subagents alike."""
    extensions.diagnostics[:] = list(dict.fromkeys(extensions.diagnostics))
