"""What a call of a Job answers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class JobResponse(BaseModel):
    """The outcome of one call. JSON: `answer`, `success`, `metadata`, in this order.

    A Step fills the response of its call in; values are checked when the call ends.
    """

    answer: Any = ""
    success: bool = True
    metadata: dict[str, Any] = Field(default_factory=dict)
