"""The base of schedulers: one for each entry under `schedules`."""

from __future__ import annotations

from typing import Any

from axonx.components.base import BaseComponent


class BaseScheduler(BaseComponent):
    """Calls one Job through `self.app_context.dispatcher`; starts after the Jobs, closes before them."""

    component_type = "scheduler"

    def __init__(self, *, job: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job = job
