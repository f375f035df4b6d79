"""What a Job takes: JSON Schemas of public arguments and of system values, compiled once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from axonx.errors import ArgumentsTypeError, ConfigurationError, InvalidArgumentsError

AGENT_DEPTH = "agent_depth"
AGENT_DEPTH_SCHEMA: Mapping[str, Any] = {"type": "integer", "minimum": 0, "default": 0}
MAX_AGENT_DEPTH = 3

_RESERVED_ARGUMENTS = ("_axonx_argv",)
_LONGEST_SHOWN_CHARS = 200
# One value of each JSON type: what accepts all of them says nothing about the type.
_ANY_TYPE: tuple[Any, ...] = (None, True, 0, "", [], {})


class ArgumentSchema:
    """The public parameters and the injected system parameters of one Job.

    Raises `ConfigurationError` (a `ValueError`) for schemas that cannot be used.
    """

    def __init__(
        self,
        job: str,
        parameters: Mapping[str, Any],
        injected: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._job = job
        self.injected = dict(injected)
        properties = parameters.get("properties", {})
        if parameters.get("type") != "object" or not isinstance(properties, Mapping):
            raise ConfigurationError(f"Job {job!r}: job parameters must describe a JSON object")
        if "target" in properties or "target" in injected:
            raise ConfigurationError(f"Job {job!r}: 'target' is reserved for transport targeting")
        if both := sorted(properties.keys() & injected.keys()):
            raise ConfigurationError(
                f"Job {job!r}: Job parameters conflict with injected parameters: {', '.join(both)}"
            )
        self._public = _compiled(job, parameters)
        closed = {"type": "object", "properties": self.injected, "additionalProperties": False}
        self._system = _compiled(job, closed)
        self._system_defaults = {
            name: schema["default"] for name, schema in injected.items() if "default" in schema
        }

    def check_arguments(self, arguments: Any) -> dict[str, Any]:
        """The caller's arguments as a dict; raises `InvalidArgumentsError`, a `ValueError`."""
        values = arguments if type(arguments) is dict else _as_dict(self._job, arguments)
        if supplied := self.injected.keys() & values.keys():
            names = ", ".join(sorted(supplied))
            raise InvalidArgumentsError(f"System-owned arguments cannot be supplied by callers: {names}")
        for name in _RESERVED_ARGUMENTS:
            if name in values:
                raise InvalidArgumentsError(f"Reserved Job argument: {name}")
        if problem := _problem(self._public, values):
            raise InvalidArgumentsError(f"Invalid arguments for job {self._job!r}: {problem}")
        return values

    def check_system(self, system: Mapping[str, Any] | None) -> dict[str, Any]:
        """System values with the defaults of those that are missing; raises as `check_arguments`."""
        if not system:
            return self._system_defaults
        values = {**self._system_defaults, **system}
        if problem := _problem(self._system, values):
            raise InvalidArgumentsError(f"Invalid system arguments for job {self._job!r}: {problem}")
        return values


def _compiled(job: str, schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_refuse_remote)
    except ValueError as error:
        reason = getattr(error, "message", None) or str(error)
        raise ConfigurationError(f"Invalid Job parameters schema: job {job!r}: {reason}") from None


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"schemas are not fetched; put {uri} under $defs")


def _as_dict(job: str, arguments: Any) -> dict[str, Any]:
    if arguments is None:
        return {}
    try:
        return dict(arguments)
    except (TypeError, ValueError):
        raise ArgumentsTypeError(
            f"Invalid arguments for job {job!r}: expected a mapping of names to values, "
            f"not {type(arguments).__name__}"
        ) from None


def _problem(validator: jsonschema_rs.Validator, values: dict[str, Any]) -> str | None:
    """The first thing that is wrong, after the path to it; `None` if nothing is."""
    try:
        if validator.is_valid(values):
            return None
        error = next(validator.iter_errors(values))
    except ValueError as not_json:
        return _problem_of_objects(validator, values, not_json)
    return _described(error, values)


def _described(error: jsonschema_rs.ValidationError, values: Any) -> str:
    """Path and message; the value shown is the caller's, not what JSON would make of it."""
    path = ".".join(str(part) for part in error.instance_path)
    found = values
    for part in error.instance_path:
        found = found[part]
    return f"{path}: {_message(error, found)}" if path else _message(error, found)


def _message(error: jsonschema_rs.ValidationError, found: Any) -> str:
    kind = error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        return f"{kind.property!r} is a required property"
    if not isinstance(found, dict | list) and not _is_json_leaf(found):
        return f"a {type(found).__name__} is not a JSON value that the schema allows here"
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Type):
        types = ", ".join(repr(name) for name in kind.types)
        return f"{found!r:.{_LONGEST_SHOWN_CHARS}} is not of type {types}"
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Enum):
        return f"{found!r:.{_LONGEST_SHOWN_CHARS}} is not one of {kind.options!r}"
    return str(error.message)


def _problem_of_objects(
    validator: jsonschema_rs.Validator, values: dict[str, Any], not_json: ValueError
) -> str | None:
    """Judge arguments that JSON cannot hold, which calls inside the process may pass.

    Such a value is accepted only where the schema accepts every type.
    """
    for stand_in in _ANY_TYPE:
        try:
            replaced = {key: _replaced(value, stand_in) for key, value in values.items()}
            error = next(iter(validator.iter_errors(replaced)), None)
        except (ValueError, RecursionError):
            return f"not JSON: {not_json}"
        if error is None:
            continue
        return _described(error, values)
    return None


def _replaced(value: Any, stand_in: Any) -> Any:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _replaced(item, stand_in) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, stand_in) for item in value]
    return value if _is_json_leaf(value) else stand_in


def _is_json_leaf(value: Any) -> bool:
    if isinstance(value, str):
        # A lone surrogate cannot be written as UTF-8.
        return value.isascii() or value.encode("utf-8", "ignore").decode() == value
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int)
