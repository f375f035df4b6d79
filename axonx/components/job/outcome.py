"""How a call ends: one checked response, whatever its Steps left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from axonx.components.job.response import JobResponse


def failure_text(error: BaseException) -> str:
    """`<Type>: <text>`, as a failed call answers."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return f"{type(error).__name__}: (its text cannot be printed)"


def failed_response(answer: str, response: object) -> JobResponse:
    """A failure that keeps the metadata collected so far, where they are sound."""
    metadata = response.metadata if isinstance(response, JobResponse) else {}
    return JobResponse(success=False, answer=answer, metadata=_sound(metadata))


def checked_response(response: object) -> JobResponse:
    """A fresh response with checked types that can be written as JSON.

    Where that is impossible: a failure that says which field is wrong, with the metadata if they are sound.
    """
    if not isinstance(response, JobResponse):
        return failed_response(f"TypeError: self.response is a {_name(response)}, not a JobResponse", None)
    try:
        checked = JobResponse(answer=response.answer, success=response.success, metadata=response.metadata)
    except ValidationError as error:
        return failed_response(_validation_text(error), response)
    problem = _unwritable(checked)
    return checked if problem is None else failed_response(problem, checked)


def _unwritable(response: JobResponse) -> str | None:
    if isinstance(response.answer, Iterator):
        return f"TypeError: response.answer is a {_name(response.answer)}, which JSON cannot hold; use a list"
    try:
        response.model_dump_json()
    except Exception as error:  # noqa: BLE001 - foreign serializers may raise anything
        return f"{type(error).__name__}: the response cannot be written as JSON: {error}"
    return None


def _sound(metadata: Any) -> dict[str, Any]:
    try:
        response = JobResponse(metadata=metadata)
    except ValidationError:
        return {}
    return response.metadata if _unwritable(response) is None else {}


def _validation_text(error: ValidationError) -> str:
    problems = (
        f"response.{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
    )
    return f"ValidationError: {'; '.join(problems)}"


def _name(value: object) -> str:
    return type(value).__name__
