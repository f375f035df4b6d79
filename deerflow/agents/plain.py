"""The lead agent as a plain graph factory, for anyone's own `langgraph.json` or script."""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from deerflow.agents.lead import Assembler
from deerflow.config import load_config, parse_request_options
from deerflow.extensions import get_loaded_extensions

logger = logging.getLogger(__name__)


def make_lead_agent(config: RunnableConfig) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The lead graph of the process-wide set, for the options in `config["configurable"]`.

    Nothing is bracketed: no run record, no task hooks for the lead, no task store. The configuration is read
    once per process. Raises `ConfigError` or `InvalidRequestError`.
    """
    assembler = _assembler(os.environ.get("DEER_FLOW_CONFIG_PATH"))
    options = parse_request_options(config.get("configurable") or {}, assembler.config)
    return assembler.lead_now(get_loaded_extensions(), options).graph


@cache
def _assembler(config_path: str | None) -> Assembler:
    config = load_config(config_path)
    if config.mcp.enabled_servers:
        logger.warning(
            "mcp.servers are not connected: make_lead_agent only builds a graph, a host has to run"
        )
    return Assembler(config)
