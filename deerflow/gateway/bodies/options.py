"""What a run may be asked for: where clients say it, and what of it only the host may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from starlette.exceptions import HTTPException

from deerflow.config import RequestOptions
from deerflow.errors import InvalidRequestError

Object = dict[str, Any]

_RESERVED_PREFIXES = ("__", "checkpoint_", "langgraph_")
_RESERVED_KEYS = frozenset({"thread_id", "run_id", "user_id"})
_KNOWN_OPTIONS = frozenset(option.name for option in fields(RequestOptions))
_KNOWN_CONFIG = frozenset({"recursion_limit", "tags", "metadata"})


def options_in(config: Mapping[str, Any] | None, context: Mapping[str, Any] | None) -> Object:
    """The options: they come as context, or in LangGraph's older place for it, `config.configurable`.

    Keys that only the host may set are dropped. 400 where both places are used and differ.
    """
    configurable = (config or {}).get("configurable") or {}
    if not isinstance(configurable, dict):
        raise InvalidRequestError("config.configurable: an object is needed")
    older, newer = without_reserved(configurable), without_reserved(context or {})
    if older and newer and older != newer:
        raise HTTPException(400, "config.configurable and context say different things; use context alone")
    return newer or older


def without_reserved(options: Mapping[str, Any]) -> Object:
    """The options without those that only the host may set."""
    return {key: value for key, value in options.items() if not _is_reserved(key)}


def known_options(options: Mapping[str, Any]) -> Object:
    """The options that this host knows; what else clients send, credentials perhaps, goes nowhere."""
    return {key: value for key, value in options.items() if key in _KNOWN_OPTIONS}


def known_config(config: Mapping[str, Any] | None) -> Object:
    """What of a config a run is recorded with."""
    return {key: value for key, value in (config or {}).items() if key in _KNOWN_CONFIG}


def without_configurable(config: Mapping[str, Any] | None) -> Object:
    """The rest of a config."""
    return {key: value for key, value in (config or {}).items() if key != "configurable"}


def _is_reserved(key: str) -> bool:
    return key.startswith(_RESERVED_PREFIXES) or key in _RESERVED_KEYS
