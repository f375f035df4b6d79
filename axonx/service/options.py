"""The options of the service `http`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from axonx.errors import ConfigurationError
from axonx.service.bearer import checked_token
from axonx.service.loopback import is_loopback_name

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class HttpOptions(BaseModel):
    """Checked options; whether MCP is served is decided."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    host: Annotated[str, Field(min_length=1)]
    port: Annotated[int, Field(ge=0, le=65535, strict=True)]
    token: str | None = Field(repr=False)
    shutdown_timeout: Seconds
    cleanup_timeout: Seconds
    keep_alive_seconds: Annotated[Seconds, Field(gt=0)]
    max_body_bytes: Annotated[int, Field(gt=0, strict=True)]
    mcp: Annotated[bool, Field(strict=True)]

    @classmethod
    def of(cls, **options: Any) -> Self:
        """Check every option. Raises `ConfigurationError`, a `ValueError`."""
        installed = find_spec("mcp") is not None
        wanted = options.pop("mcp")
        try:
            checked = cls(**options, mcp=installed if wanted is None else wanted)
        except ValidationError as error:
            problems = (
                f"service.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            )
            raise ConfigurationError("; ".join(problems)) from None
        if checked.mcp and not installed:
            raise ConfigurationError("service.mcp: the package mcp is not installed; install deerflow[mcp]")
        if checked_token(checked.token) is None and not is_loopback_name(checked.host):
            raise ConfigurationError(
                f"service: host {checked.host!r} can be reached from other machines, which needs "
                "service.token; set one, or listen on 127.0.0.1"
            )
        return checked
