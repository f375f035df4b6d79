"""Agents: the lead, its subagents, their middlewares and tools, as compiled graphs."""

from deerflow.agents.plain import make_lead_agent

__all__ = ["make_lead_agent"]
