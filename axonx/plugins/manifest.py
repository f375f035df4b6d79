"""`plugin.yaml`: what a plugin says that it brings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictStr,
    StringConstraints,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from axonx.config import JobConfig
from axonx.core.yaml_mapping import parse_mapping
from axonx.plugins.errors import ManifestError
from axonx.service.exposure import has_url

MANIFEST_FILE = "plugin.yaml"
_LARGEST_MANIFEST_BYTES = 1024 * 1024

_IDENTIFIERS = r"[^\W\d]\w*(\.[^\W\d]\w*)*"


def _job_name(name: str) -> str:
    if not has_url(name):  # it would keep every Application with a service from being built
        raise PydanticCustomError("job_name", "a Job of this name has no URL")
    return name


Name = Annotated[StrictStr, StringConstraints(min_length=1)]
JobName = Annotated[Name, AfterValidator(_job_name)]
Target = Annotated[StrictStr, StringConstraints(pattern=rf"^{_IDENTIFIERS}:{_IDENTIFIERS}$")]


class PluginManifest(BaseModel):
    """The sections of a manifest, each of them optional; other root keys are refused.

    A target is `module:Class`. `components` maps a category to backend names; instances of them are
    configured by the application.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    tasks: dict[Name, Target] = Field(default_factory=dict)
    components: dict[Name, dict[Name, Target]] = Field(default_factory=dict)
    jobs: dict[JobName, JobConfig] = Field(default_factory=dict)


def parse_manifest(content: bytes) -> PluginManifest:
    """Check the text of a manifest; raises `ManifestError`, a `ValueError`, that names every wrong entry."""
    if len(content) > _LARGEST_MANIFEST_BYTES:
        raise ManifestError(f"manifest is larger than {_LARGEST_MANIFEST_BYTES} bytes")
    try:
        document = parse_mapping(content)
    except ValueError as error:
        raise ManifestError(f"manifest is not valid YAML: {error}") from None
    if document is None:
        raise ManifestError("manifest root must be a mapping")
    try:
        return PluginManifest.model_validate(document)
    except ValidationError as error:
        raise ManifestError("; ".join(map(_problem, error.errors()))) from None


def _problem(error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"] if part != "[key]")
    if error["type"] == "string_pattern_mismatch":
        return f"{path}: expected 'module:Class'"
    return f"{path}: {error['msg']}"
