"""The two bodies that a service answers with: the envelope of a call, and `{"detail": ...}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from axonx.components.job.response import JobResponse
from axonx.service.envelope import envelope_json

NO_STORE = {"Cache-Control": "no-store"}


def detail(status: int, text: Any, headers: Mapping[str, str] | None = None) -> Response:
    """An error; in ASCII, because the text may quote what UTF-8 cannot hold."""
    body = json.dumps({"detail": text})
    return Response(body, status, {**NO_STORE, **(headers or {})}, media_type="application/json")


def envelope(response: JobResponse) -> Response:
    """The outcome of a call, 200 also for a failure."""
    return Response(envelope_json(response), headers=NO_STORE, media_type="application/json")
