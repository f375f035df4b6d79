"""The base of services."""

from __future__ import annotations

from axonx.components.base import BaseComponent


class BaseService(BaseComponent):
    """Offers the Jobs to other processes; starts last, closes first."""

    component_type = "service"
