"""What the `config` of a bridge's record says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from deerflow_extension_api import AgentScope
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from deerflow.config.problems import dotted
from deerflow.errors import ConfigError

PUBLIC: Final = "public"

_SCOPES: Final = {"lead": AgentScope.LEAD, "subagents": AgentScope.SUBAGENT}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Choice(_Strict):
    """A Job or Task by its name, and the name of its tool where that shall be another one."""

    name: Annotated[str, Field(min_length=1)]
    tool: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None


def _choices(value: Any) -> Any:
    """Read plain names, and `public`, as what they stand for."""
    if value == PUBLIC:
        return None
    if isinstance(value, str) or not isinstance(value, list | tuple):
        return value
    return [{"name": choice} if isinstance(choice, str) else choice for choice in value]


class BridgeOptions(_Strict):
    """`jobs` is `None` for all public ones; `application` is a file or the configuration itself."""

    application: str | dict[str, Any]
    providers: tuple[str, ...] = ()
    jobs: Annotated[tuple[Choice, ...] | None, BeforeValidator(_choices)] = None
    tasks: Annotated[tuple[Choice, ...], BeforeValidator(_choices)] = ()
    tool_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,32}$")] = ""
    agents: Annotated[tuple[Literal["lead", "subagents"], ...], Field(min_length=1)] = ("lead", "subagents")
    artifacts_folder: Annotated[str, Field(min_length=1)] = "artifacts"
    max_artifact_bytes: Annotated[int, Field(gt=0)] = 100_000_000
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 1800.0

    @property
    def scope(self) -> AgentScope:
        """The agents that get the tools."""
        scope = AgentScope(0)
        for agent in self.agents:
            scope |= _SCOPES[agent]
        return scope


def read_options(config: Mapping[str, Any]) -> BridgeOptions:
    """The checked options. `ConfigError` has a line for each wrong field."""
    try:
        return BridgeOptions.model_validate(dict(config))
    except ValidationError as error:
        raise ConfigError("\n".join(map(_line, error.errors(include_url=False)))) from None


def _line(problem: Any) -> str:
    where = dotted(("config", *problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"{where}: is an unknown key; allowed: {', '.join(BridgeOptions.model_fields)}"
    return f"{where}: {problem['msg']}"
