"""A graph's shape and schemas, as JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from langgraph.pregel import Pregel
from pydantic import create_model

from deerflow.runs.request import GRAPH_ID

logger = logging.getLogger(__name__)

Graph = Pregel[Any, Any, Any, Any]
Json = dict[str, Any]


def graph_schemas(graph: Graph) -> Json:
    """The JSON schemas of input, output, state and context; null for one that cannot be made."""
    return {
        "graph_id": GRAPH_ID,
        "input_schema": _attempt("input", graph.get_input_jsonschema),
        "output_schema": _attempt("output", graph.get_output_jsonschema),
        "state_schema": _attempt("state", lambda: _state_schema(graph)),
        "config_schema": {},
        "context_schema": _attempt("context", graph.get_context_jsonschema),
    }


def graph_drawing(graph: Graph, xray: int | bool) -> Json:
    """The nodes and edges."""
    drawing = graph.get_graph(xray=xray).to_json()
    for node in drawing.get("nodes", ()):
        if isinstance(node.get("data"), dict):
            node["data"].pop("id", None)
    return drawing


def _state_schema(graph: Graph) -> Json:
    fields: Any = {}
    for name in graph.stream_channels_list:
        channel: Any = graph.channels[name]
        update_type = channel.UpdateType
        is_known = _attempt(name, create_model(name, root=(update_type, None)).model_json_schema) is not None
        fields[name] = (update_type if is_known else Any, None)
    schema: Json = create_model(f"{GRAPH_ID}_state", **fields).model_json_schema()
    return schema


def _attempt(what: str, make: Callable[[], Json | None]) -> Json | None:
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - a state may hold types that have no JSON schema
        logger.debug("no JSON schema for %s: %s", what, error)
        return None
