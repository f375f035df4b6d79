"""The types of configuration values: strict, finite, and with their range in the type."""

from __future__ import annotations

from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class EnvironmentText(str):
    """Text that stood in an environment variable; only there may text become a number or a flag."""

    __slots__ = ()


def own_copy(value: Any, _seen: dict[int, Any] | None = None) -> Any:
    """Return `value` with fresh mappings and lists at every depth; other objects stay the same objects."""
    seen = {} if _seen is None else _seen
    if isinstance(value, EnvironmentText):
        return str(value)
    if type(value) not in (dict, list):
        return value
    if id(value) in seen:  # an alias within the value, or a cycle
        return seen[id(value)]
    copied: Any = seen.setdefault(id(value), type(value)())
    if isinstance(value, dict):
        copied.update((key, own_copy(item, seen)) for key, item in value.items())
    else:
        copied.extend(own_copy(item, seen) for item in value)
    return copied


def _typed_environment(value: Any) -> Any:
    """Read `"5"` and `"true"` as YAML does, where an environment variable said so."""
    if not isinstance(value, EnvironmentText):
        return value
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return str(value)


_FromEnvironment = BeforeValidator(_typed_environment)

Flag = Annotated[bool, Field(strict=True), _FromEnvironment]
PositiveInt = Annotated[int, Field(strict=True, gt=0), _FromEnvironment]
Count = Annotated[int, Field(strict=True, ge=0), _FromEnvironment]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False), _FromEnvironment]
Fraction = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False), _FromEnvironment]
Text = Annotated[str, Field(min_length=1)]
OwnMapping = Annotated[dict[str, Any], BeforeValidator(own_copy)]


class Section(BaseModel):
    """A frozen part of the configuration; keys that it does not know are found by the loader, not here."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)
