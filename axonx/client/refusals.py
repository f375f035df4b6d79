"""What a service's refusal means for its caller: the errors of a local call, where it has them."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from axonx.client.errors import RemoteCallError
from axonx.errors import AxonXError, InvalidArgumentsError, StreamingNotSupportedError, UnknownJobError

_LONGEST_SHOWN_CHARACTERS = 500


def refusal(job: str, status: int, body: bytes) -> AxonXError:
    """The error for a status other than 200."""
    detail = _detail(body)
    if status == 404 and detail == "Unknown job":
        return UnknownJobError(f"Unknown job: {job!r}")
    if status == 404 and "does not support streaming" in detail:
        return StreamingNotSupportedError(detail)
    if status == 422:
        return InvalidArgumentsError(detail)
    if status == 401:
        return RemoteCallError("it refused the token (401); set the right one under targets")
    return RemoteCallError(f"it answered {status}: {detail}; is there an AxonX service?")


def _detail(body: bytes) -> str:
    try:
        document: Any = from_json(body)
    except ValueError:
        document = None
    found = document.get("detail") if isinstance(document, dict) else None
    text = found if isinstance(found, str) else body.decode("utf-8", "replace")
    return " ".join(text.split())[:_LONGEST_SHOWN_CHARACTERS]
