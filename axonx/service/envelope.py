"""The outcome of a call as JSON."""

from __future__ import annotations

from axonx.components.job.outcome import failed_response, failure_text
from axonx.components.job.response import JobResponse


def envelope_json(response: JobResponse) -> str:
    """`answer`, `success` and `metadata` in one line; a failure where the answer cannot be written."""
    try:
        return response.model_dump_json()
    except Exception as error:  # noqa: BLE001 - foreign serializers may raise anything
        return failed_response(failure_text(error), response).model_dump_json()
