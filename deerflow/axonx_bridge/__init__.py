"""The bridge between the two halves: AxonX Jobs and Tasks as tools of agents, and chats as Steps of Jobs.

    plugins:
      - use: deerflow.axonx_bridge:install
        config: {application: application.yaml, providers: [my_package.steps:MyStep]}

This package is the only one of the host that knows AxonX, and nothing of the host knows this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow_extension_api import ExtensionRegistry, extension

from deerflow.axonx_bridge.application import build_application
from deerflow.axonx_bridge.chat_agent import DeerflowAgent
from deerflow.axonx_bridge.chat_step import DeerflowChatStep
from deerflow.axonx_bridge.contribution import ToolContribution
from deerflow.axonx_bridge.offers import chosen_offers
from deerflow.axonx_bridge.options import read_options
from deerflow.axonx_bridge.running import BridgedApplication
from deerflow.axonx_bridge.service import ApplicationService
from deerflow.axonx_bridge.tools import build_tools

__all__ = ["DeerflowAgent", "DeerflowChatStep", "install"]


@extension(api="0.2.1", name="axonx bridge")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """Compose the Application, and offer its chosen Jobs and Tasks as tools.

    `ConfigError`, or what AxonX says of the application's own configuration, for what cannot be used.
    """
    options = read_options(config)
    application = build_application(options)
    bridged = BridgedApplication(application)
    tools = build_tools(chosen_offers(application, options), bridged, options)
    registry.service(ApplicationService(bridged))
    registry.middlewares(ToolContribution(tools, options.scope))
