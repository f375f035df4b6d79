"""Which Jobs a service offers, and to whom."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from axonx.errors import ConfigurationError

if TYPE_CHECKING:
    from axonx.components.job.base import BaseJob
    from axonx.core.app_context import AppContext


def has_url(name: str) -> bool:
    """Whether a Job of this name can be called over HTTP: as one segment of a path."""
    return bool(name) and "/" not in name and name not in (".", "..")


def exposed_jobs(context: AppContext, *, with_token: bool) -> Mapping[str, BaseJob]:
    """The Jobs with `enable_serve`; without a token only those with `requires_auth: false`.

    Raises `ConfigurationError` for a name that no URL can hold.
    """
    found = {
        name: job
        for name, job in context.jobs.items()
        if job.enable_serve and (with_token or not job.requires_auth)
    }
    for name in found:
        if not has_url(name):
            raise ConfigurationError(
                f"jobs.{name}: a Job of this name has no URL; rename it, or set enable_serve: false"
            )
    return MappingProxyType(found)


def hidden_for_lack_of_a_token(context: AppContext) -> list[str]:
    """The names of the Jobs that a service without token does not offer."""
    return [name for name, job in context.jobs.items() if job.enable_serve and job.requires_auth]
