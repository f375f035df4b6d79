"""What a contributed wrap hook is shown of a call: objects of the same types that lead back to nothing.

Whatever a hook changes in them, in place or not, stays with the hook. Messages and containers are copied when
the hook first reads them, so that one which only counts or times calls pays nothing. Chat models, tools, the
run's context and the store are the real ones.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import BaseMessage
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

T = TypeVar("T")

_PLAIN: Final = frozenset({str, int, float, bool, bytes, type(None)})

_Twins: TypeAlias = dict[int, BaseMessage]
"""Messages copied so far, by the id of the original: one that occurs twice stays one message."""


def detached(value: T) -> T:
    """Return a copy of messages, commands and containers, however nested; any other object as it is."""
    copied: T = _detach(value, {})
    return copied


def _detach(value: Any, twins: _Twins) -> Any:
    try:
        return _copy(value, twins)
    except RecursionError:
        return deepcopy(value)


def _copy(value: Any, twins: _Twins) -> Any:
    cls = type(value)
    if cls in _PLAIN:
        return value
    if cls is dict:
        return {key: item if type(item) in _PLAIN else _copy(item, twins) for key, item in value.items()}
    if cls is list:
        return [item if type(item) in _PLAIN else _copy(item, twins) for item in value]
    if cls is tuple:
        return tuple([_copy(item, twins) for item in value])
    return _copy_object(value, twins)


def _copy_object(value: Any, twins: _Twins) -> Any:
    if isinstance(value, BaseMessage):
        twin = twins.get(id(value))
        if twin is None:
            twin = twins[id(value)] = _copy_message(value, twins)
        return twin
    if isinstance(value, Command):
        return replace(value, update=_copy(value.update, twins))
    if isinstance(value, (dict, list, tuple, set)):
        return deepcopy(value)
    return value


def _copy_message(message: BaseMessage, twins: _Twins) -> BaseMessage:
    # What pydantic's own copy does, and deeper, in the same time: conversations are long.
    twin = message.__class__.__new__(message.__class__)
    fields = message.__dict__.copy()
    for name, value in fields.items():
        if type(value) not in _PLAIN:
            fields[name] = _copy(value, twins)
    object.__setattr__(twin, "__dict__", fields)
    object.__setattr__(twin, "__pydantic_fields_set__", message.__pydantic_fields_set__.copy())
    object.__setattr__(twin, "__pydantic_extra__", _copy(message.__pydantic_extra__, twins))
    object.__setattr__(twin, "__pydantic_private__", _copy(message.__pydantic_private__, twins))
    return twin


class _ReadLater:
    """Fields that are copied from the source when they are first read."""

    _later: ClassVar[frozenset[str]]

    @classmethod
    def of(cls, source: Any, twins: _Twins | None = None) -> Any:
        """Return a view of `source`, which must be an instance of this class's own base."""
        view = cls.__new__(cls)
        fields = vars(view)
        fields.update(vars(source))
        for name in cls._later:
            fields.pop(name, None)
        fields["_source"] = source
        fields["_twins"] = {} if twins is None else twins
        return view

    def __getattr__(self, name: str) -> Any:
        fields = vars(self)
        if name not in type(self)._later or "_source" not in fields:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        fields[name] = value = self._read(name, fields["_source"], fields["_twins"])
        return value

    def _read(self, name: str, source: Any, twins: _Twins) -> Any:
        return _detach(getattr(source, name), twins)


class DetachedModelRequest(_ReadLater, ModelRequest[Any]):
    """A `ModelRequest` for a hook that may look but not change."""

    _later = frozenset({"messages", "system_message", "tools", "tool_choice", "state", "model_settings"})


class DetachedModelResponse(_ReadLater, ModelResponse[Any]):
    """A `ModelResponse` for a hook that may look but not change."""

    _later = frozenset({"result"})


class DetachedToolRuntime(_ReadLater, ToolRuntime[Any, Any]):
    """The runtime of a tool call, with the run's own context, store and writer."""

    _later = frozenset({"state", "config", "tools"})


class DetachedToolCallRequest(_ReadLater, ToolCallRequest):
    """A `ToolCallRequest` for a hook that may look but not change."""

    _later = frozenset({"tool_call", "state", "runtime"})

    def _read(self, name: str, source: Any, twins: _Twins) -> Any:
        if name == "runtime" and isinstance(source.runtime, ToolRuntime):
            return DetachedToolRuntime.of(source.runtime, twins)
        return super()._read(name, source, twins)


def detached_request(request: Any) -> Any:
    """Return what a hook sees instead of a model or tool request."""
    if isinstance(request, ModelRequest):
        return DetachedModelRequest.of(request)
    if isinstance(request, ToolCallRequest):
        return DetachedToolCallRequest.of(request)
    return detached(request)


def detached_result(result: Any) -> Any:
    """Return what a hook sees instead of a model's or tool's result."""
    if type(result) is not ModelResponse:
        return detached(result)
    view = DetachedModelResponse.of(result)
    if result.structured_response is not None:
        vars(view)["structured_response"] = deepcopy(result.structured_response)
    return view
