"""What the parts of one Application know about it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from axonx.components.registry import ProviderRegistry
from axonx.config import ApplicationConfig
from axonx.core.logs import ApplicationLogs
from axonx.errors import ComponentNotFoundError

if TYPE_CHECKING:
    from axonx.components.base import BaseComponent
    from axonx.components.job.base import BaseJob
    from axonx.core.dispatcher import Dispatcher

Components = Mapping[str, Mapping[str, "BaseComponent"]]


class AppContext:
    """Configuration, registry, named instances and the dispatcher of one Application.

    Read-only for everyone but composition.
    """

    def __init__(self, config: ApplicationConfig) -> None:
        self.config = config
        self.workspace_path = Path(config.workspace_dir).absolute()
        self.registry = ProviderRegistry()
        self.logs = ApplicationLogs(config)
        self.components: Components = MappingProxyType({})
        self.jobs: Mapping[str, BaseJob] = MappingProxyType({})
        self.plugin_problems: list[tuple[str, str]] = []
        self.unusable_jobs: dict[str, str] = {}
        self.schedulers: Mapping[str, BaseComponent] = MappingProxyType({})
        self.service: BaseComponent | None = None
        self.dispatcher: Dispatcher

    @property
    def logger(self) -> logging.Logger:
        return self.logs.root

    def logger_for(self, name: str) -> logging.Logger:
        return self.logs.logger_for(name)

    def component(self, category: str, name: str = "default") -> BaseComponent:
        """The configured instance; raises `ComponentNotFoundError` (a `KeyError`)."""
        try:
            return self.components[category][name]
        except KeyError:
            known = self.components.get(category, {})
            raise ComponentNotFoundError(category, name, known) from None

    def __repr__(self) -> str:
        return f"<AppContext {self.config.app_name!r}>"
