"""The configuration of an Application; unknown keys are refused."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


def _directory_text(path: object) -> object:
    return os.fspath(path) if isinstance(path, os.PathLike) else path


def _known_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"Unknown timezone: {name!r}; use an IANA name such as 'Europe/Berlin'") from None
    return name


Name = Annotated[str, Field(min_length=1)]
Directory = Annotated[str, BeforeValidator(_directory_text), Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _WithOptions(BaseModel):
    """An entry whose further keys are the constructor options of its class."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    @property
    def options(self) -> dict[str, Any]:
        return self.__pydantic_extra__ or {}


class BackendConfig(_WithOptions):
    """A component, Step or service: `backend` names the class."""

    backend: Name


class JobConfig(_WithOptions):
    """A Job; `parameters` is the JSON Schema of its arguments, of type object."""

    backend: Name = "pipeline"
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    enable_serve: bool = True
    enable_stream: bool = True
    requires_auth: bool = True
    steps: list[BackendConfig] = Field(default_factory=list)
    defaults: dict[str, Any] = Field(default_factory=dict)


class ScheduleConfig(_WithOptions):
    """When a Job runs by itself; the further keys belong to the scheduler's class."""

    backend: Name = "cron"
    job: Name


class PluginsConfig(_Strict):
    sources: list[str] = Field(default_factory=list)


class TargetConfig(_Strict):
    """Another AxonX service that calls may be sent to."""

    address: Name
    token: Annotated[str, Field(min_length=1)] | None = Field(default=None, repr=False)


class _Unused(_Strict):
    """Settings that other AxonX distributions know: checked, and without effect here.

    Accepting them lets one configuration serve both.
    """

    enable_logo: bool = False
    language: Literal["en", "zh"] = "en"
    transfer_budget_bytes: Annotated[int, Field(gt=0, strict=True)] = 512 * 1024 * 1024
    studio: dict[str, Any] = Field(default_factory=dict)


class ApplicationConfig(_Unused):
    """Everything that `Application(**config)` takes."""

    app_name: Name = "AxonX"
    workspace_dir: Directory = ".axonx"
    log_dir: Directory = "logs"
    log_to_console: bool = False
    log_to_file: bool = False
    timezone: Annotated[str, AfterValidator(_known_timezone)] = "UTC"
    job_close_timeout_seconds: Seconds = 10.0
    component_close_timeout_seconds: Seconds = 60.0
    components: dict[Name, dict[Name, BackendConfig]] = Field(default_factory=dict)
    jobs: dict[Name, JobConfig] = Field(default_factory=dict)
    schedules: dict[Name, ScheduleConfig] = Field(default_factory=dict)
    service: BackendConfig | None = None
    plugins: PluginsConfig = Field(default_factory=PluginsConfig)
    targets: list[TargetConfig] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Validate; pydantic's `ValidationError`, a `ValueError`, names every field that is wrong."""
        return cls.model_validate(values)
