"""The service that keeps a bridge's Application open while the host is."""

from __future__ import annotations

from deerflow_extension_api import ExtensionRuntimeDeps, ExtensionService

from deerflow.axonx_bridge.running import BridgedApplication


class ApplicationService(ExtensionService):
    """Starts the Application on the loop on which extensions are notified, and closes it at shutdown."""

    def __init__(self, bridged: BridgedApplication) -> None:
        self._bridged = bridged

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        await self._bridged.start()

    async def stop(self) -> None:
        await self._bridged.stop()
