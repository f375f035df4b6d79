"""What an assembled agent consists of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol

from ._json_shape import json_shape
from .hashing import canonical_hash, canonical_json
from .state import ExtensionData

_WITHOUT_EFFECT = frozenset({"build", "requested_model"})


@dataclass(frozen=True)
class ToolDescriptor:
    """One tool. The hashes are of its description and of its arguments' JSON Schema."""

    name: str
    description_hash: str
    schema_hash: str
    source: str
    mcp_server: str | None = None
    mcp_transport: str | None = None


@dataclass(frozen=True)
class MiddlewareDescriptor:
    """One middleware, described as itself and not as its wrapper.

    `extension` is the contributing entry point, `None` for the host's own.
    """

    name: str
    module: str
    policy_parameters: dict[str, Any] = field(default_factory=dict)
    extension: str | None = None


@dataclass(frozen=True)
class AgentAssemblyDescriptor:
    """One assembly. `middlewares` stand in the order of the stack, outermost first."""

    namespace: str
    agent_name: str | None
    requested_model: str | None
    effective_model: str | None
    model_parameters: dict[str, Any]
    thinking_enabled: bool
    reasoning_effort: str | None
    base_prompt_hash: str
    tools: tuple[ToolDescriptor, ...]
    middlewares: tuple[MiddlewareDescriptor, ...]
    deferred_tool_names: tuple[str, ...]
    enabled_skills: tuple[str, ...]
    effective_policies: dict[str, Any]
    build: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits, the same for assemblies that behave the same.

        `requested_model`, `build` and the order of tools, deferred names and skills do not count; the order
        of middlewares does. Values that JSON cannot hold count by their content where that is plain (sets,
        bytes, enums, dataclasses, paths, dates, decimals), classes and functions by name, the rest by type.
        """
        parts = {name: value for name, value in _parts(self).items() if name not in _WITHOUT_EFFECT}
        parts["tools"] = _sorted(map(_parts, self.tools))
        parts["middlewares"] = [_parts(middleware) for middleware in self.middlewares]
        parts["deferred_tool_names"] = _sorted(self.deferred_tool_names)
        parts["enabled_skills"] = _sorted(self.enabled_skills)
        return canonical_hash(json_shape(parts))


class AgentAssemblyObserver(Protocol):
    """Learns of each assembly, at its end. A cached agent is not assembled again."""

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        """Take note of one assembly. A plain function, and quick: nothing bounds it."""
        return


def _parts(described: Any) -> dict[str, Any]:
    # dataclasses.asdict would copy deeply, which a lock or a client among the values refuses.
    return {part.name: getattr(described, part.name) for part in fields(described)}


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(map(json_shape, values), key=canonical_json)
