"""The types of configuration values: strict, finite, and with what is allowed in the type."""

from __future__ import annotations

from typing import Annotated, Any

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError


class EnvironmentText(str):
    """Text with an environment variable's value in it; only there may text become a number or a flag.

    `reference` is the text as the file has it: it may be printed, the value may not.
    """

    reference: str

    @classmethod
    def of(cls, value: str, reference: str) -> EnvironmentText:
        text = cls(value)
        text.reference = reference
        return text


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


def _absent_if_empty(value: Any) -> Any:
    """Read `${NAME:-}` as "not given"."""
    return None if isinstance(value, EnvironmentText) and not value else value


def refusal(allowed: str, **facts: Any) -> PydanticCustomError:
    """Return the error of a wrong value; `allowed` says which values are right."""
    return PydanticCustomError("not_allowed", "{allowed}", {"allowed": allowed, **facts})


def _allowed(what: str) -> WrapValidator:
    """Answer every wrong value with the one sentence that says what is allowed."""

    def check(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate(value)
        except ValidationError:
            raise refusal(what) from None

    return WrapValidator(check)


_environment = BeforeValidator(_typed_environment)

Flag = Annotated[bool, Field(strict=True), _environment, _allowed("true or false")]
PositiveInt = Annotated[int, Field(strict=True, gt=0), _environment, _allowed("a whole number from 1")]
Count = Annotated[int, Field(strict=True, ge=0), _environment, _allowed("a whole number from 0")]
_Finite = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False), _environment]
Seconds = Annotated[_Finite, Field(le=1e9), _allowed("a positive number of seconds")]
Fraction = Annotated[_Finite, Field(le=1), _allowed("a number above 0 and up to 1")]
Amount = Annotated[PositiveInt | Fraction, _allowed("a whole number from 1, or a fraction up to 1")]
Text = Annotated[str, Field(min_length=1), _allowed("text of at least one character")]
OptionalInt = Annotated[PositiveInt | None, BeforeValidator(_absent_if_empty)]
OptionalSeconds = Annotated[Seconds | None, BeforeValidator(_absent_if_empty)]
OptionalText = Annotated[Text | None, BeforeValidator(_absent_if_empty)]
OwnMapping = Annotated[dict[str, Any], BeforeValidator(own_copy)]


class Section(BaseModel):
    """A frozen part of the configuration; `AppConfig` names the keys that a section does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)
