"""What clients send about threads and their states."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Object = dict[str, Any]


class ThreadBody(BaseModel):
    """A new thread."""

    model_config = ConfigDict(extra="ignore")

    thread_id: str | None = None
    metadata: Object | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
