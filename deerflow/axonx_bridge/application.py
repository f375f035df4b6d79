"""The Application of a bridge, composed from its options."""

from __future__ import annotations

from typing import Any

from axonx import Application
from axonx.cli.configuration import load_configuration
from axonx.task.defaults import TASK_COMPONENTS
from deerflow.axonx_bridge.chat_agent import DeerflowAgent
from deerflow.axonx_bridge.chat_step import DeerflowChatStep
from deerflow.axonx_bridge.options import BridgeOptions
from deerflow.config.reference import import_reference
from deerflow.errors import ConfigError

OWN_PROVIDERS = (DeerflowAgent, DeerflowChatStep)


def build_application(options: BridgeOptions) -> Application:
    """Compose the Application; nothing is started. Raises what is wrong with its configuration."""
    config = _configuration(options)
    if options.tasks:
        config["components"] = {**TASK_COMPONENTS, **(config.get("components") or {})}
    if "providers" in config:
        raise ConfigError(
            "application.providers: is not part of an application's configuration; "
            "name the classes in the bridge's own `providers`"
        )
    return Application(providers=(*OWN_PROVIDERS, *_providers(options)), **config)


def _configuration(options: BridgeOptions) -> dict[str, Any]:
    if isinstance(options.application, dict):
        return dict(options.application)
    try:
        return dict(load_configuration(options.application))
    except FileNotFoundError:
        raise ConfigError(
            f"config.application: there is no file {options.application!r}; a relative path starts from the "
            "working directory"
        ) from None


def _providers(options: BridgeOptions) -> list[type]:
    found: list[type] = []
    for index, use in enumerate(options.providers):
        where = f"config.providers[{index}]"
        provider = import_reference(use, where=where, example="my_package.steps:MyStep")
        if not isinstance(provider, type):
            raise ConfigError(f"{where}: {use!r} is a {type(provider).__name__}; name a class")
        if provider not in (*OWN_PROVIDERS, *found):
            found.append(provider)
    return found
