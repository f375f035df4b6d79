"""The subagent types that a configuration offers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from deerflow.config.limits import SubagentLimits
from deerflow.config.schema import AppConfig

GENERAL_PURPOSE = "general-purpose"

_GENERAL_DESCRIPTION = (
    "Handles any self-contained piece of work: reading files, research, drafting, checking."
)
_GENERAL_PROMPT = (
    "You are a subagent working on one self-contained task. You see nothing of the conversation that led to "
    "it. Use your tools, do not ask back, and answer with the result alone: complete, concrete, and honest "
    "about what you could not do."
)


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SubagentType:
    """One kind of subagent, with what bounds each execution of it."""

    name: str
    description: str
    system_prompt: str
    limits: SubagentLimits


def subagent_catalogue(config: AppConfig) -> Mapping[str, SubagentType]:
    """All types by name: the built-in one first, then `subagents.custom_agents`."""
    section = config.subagents
    texts = {GENERAL_PURPOSE: (_GENERAL_DESCRIPTION, _GENERAL_PROMPT)}
    texts |= {name: (agent.description, agent.system_prompt) for name, agent in section.custom_agents.items()}
    unknown = section.agents.keys() - texts.keys()
    if unknown:
        logger.warning(
            "subagents.agents changes agents that there are not: %s; known: %s",
            ", ".join(sorted(unknown)),
            ", ".join(texts),
        )
    return {
        name: SubagentType(name, description, prompt, section.limits_for(name))
        for name, (description, prompt) in texts.items()
    }
