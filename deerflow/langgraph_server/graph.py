"""The graph entry of `langgraph.json`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.runtime import ServerRuntime

from deerflow.agents.reading import Graph, showing_questions
from deerflow.config import RequestOptions, parse_request_options
from deerflow.errors import InvalidRequestError
from deerflow.extensions import get_loaded_extensions
from deerflow.langgraph_server.bracket import BracketedGraph, ServedGraph
from deerflow.langgraph_server.state import DevServer, dev_server


@asynccontextmanager
async def lead_agent(config: RunnableConfig, runtime: ServerRuntime[Any]) -> AsyncIterator[Graph]:
    """The lead graph; for an execution with services up, hooks around it, and a task store.

    Reading state, history or schemas gets the same graph and starts nothing.
    """
    server = dev_server()
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    execution = runtime.execution_runtime
    if execution is None:
        options = _readable_options(configurable, server)
        if runtime.access_context == "threads.read":
            options = showing_questions(options)
        yield await _graph(server, options)
        return
    options = parse_request_options(execution.context or configurable, server.config)
    run_id = str(configurable.get("run_id") or config.get("run_id") or uuid4())
    thread_id = str(configurable.get("thread_id") or run_id)
    async with server.execution(run_id):
        user = runtime.user
        scope = server.scope(run_id, thread_id, options, None if user is None else user.identity)
        assembly = await server.assembler.lead(scope.snapshot, options)
        yield BracketedGraph.around(assembly.graph, scope=scope, tracing=server.assembler.tracing)


async def _graph(server: DevServer, options: RequestOptions) -> Graph:
    return ServedGraph.around((await server.assembler.lead(get_loaded_extensions(), options)).graph)


def _readable_options(configurable: Mapping[str, Any], server: DevServer) -> RequestOptions:
    """Options for a read: what cannot be used there must not keep anyone from reading."""
    try:
        return parse_request_options(configurable, server.config)
    except InvalidRequestError:
        return RequestOptions()
