"""The base of clients of other AxonX services."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from axonx.components.base import BaseComponent
from axonx.components.job.base import EventStream
from axonx.components.job.response import JobResponse


class BaseClient(BaseComponent, ABC):
    """Calls Jobs at one address; started on first use, closed with the Application."""

    component_type = "client"

    def __init__(self, *, address: str, token: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.address = address
        self.token = token

    @abstractmethod
    async def run_job(self, name: str, arguments: Any = None) -> JobResponse:
        """Run a Job there to its end."""

    @abstractmethod
    def stream_job(self, name: str, arguments: Any = None) -> EventStream:
        """EventStream of a Job there and, last, its ResultEvent."""
