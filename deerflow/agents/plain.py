"""The lead agent as a plain graph factory, for anyone's own `langgraph.json` or script."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from concurrent.futures import Future, wait
from functools import cache
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from deerflow.agents.lead import Assembler
from deerflow.agents.mcp import open_mcp_tools
from deerflow.agents.reading import ReadGraph, attributes_of, showing_questions
from deerflow.config import load_config, parse_request_options
from deerflow.extensions import get_loaded_extensions
from deerflow.loop_thread import side_loop

logger = logging.getLogger(__name__)

_RUNS_KEY = "__is_for_execution__"
"""Whether a LangGraph server is about to run the graph; a factory is told so by this key of its own alone."""

LEAVE_SECONDS = 5.0
"""How long the end of the process waits for its MCP servers."""


def make_lead_agent(config: RunnableConfig) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The lead graph of the process-wide set, for the options in `config["configurable"]`.

    Nothing is bracketed: no run record, no task hooks for the lead, no task store. The configuration is read
    once per process, and MCP servers stay connected as long as it lives. On an event loop nothing waits for
    them: a graph that is made before they are there lacks their tools. Where a LangGraph server reads, states
    show what waits for a person's approval. Raises `ConfigError` or `InvalidRequestError`.
    """
    plain = _plain(os.environ.get("DEER_FLOW_CONFIG_PATH"))
    if plain.connected.done() or not _is_on_a_loop():
        plain.connected.result()
    else:
        logger.info("this graph is made while MCP servers are being connected: it lacks their tools")
    configurable = config.get("configurable") or {}
    options = parse_request_options(configurable, plain.assembler.config)
    snapshot = get_loaded_extensions()
    graph = plain.assembler.lead_now(snapshot, options).graph
    if configurable.get(_RUNS_KEY, True):
        return graph
    asking = plain.assembler.lead_now(snapshot, showing_questions(options)).graph
    return ReadGraph(asking=asking, **attributes_of(graph))


class _Plain:
    """The assembler of one configuration, with connections that live as long as the process."""

    def __init__(self, assembler: Assembler) -> None:
        self.assembler = assembler
        self.connected: Future[None] = Future()
        if not assembler.config.mcp.enabled_servers:
            self.connected.set_result(None)
            return
        self._leaving = asyncio.Event()
        self._connections = side_loop().submit(self._stay_connected())
        atexit.register(self._leave)

    async def _stay_connected(self) -> None:
        add_tools = self.assembler.add_tools
        try:
            async with open_mcp_tools(self.assembler.config.mcp, offer_later=add_tools) as tools:
                add_tools(tools)
                self.connected.set_result(None)
                await self._leaving.wait()
        except BaseException as error:
            if not self.connected.done():
                self.connected.set_exception(error)
            raise

    def _leave(self) -> None:
        side_loop().submit(_set(self._leaving))
        wait({self._connections}, timeout=LEAVE_SECONDS)


async def _set(event: asyncio.Event) -> None:
    event.set()


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@cache
def _plain(config_path: str | None) -> _Plain:
    return _Plain(Assembler(load_config(config_path)))
