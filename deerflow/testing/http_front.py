"""The Gateway in front of a host that is open already, for requests within this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from deerflow.extensions import LoadedExtensions, set_loaded_extensions
from deerflow.gateway.app import create_app
from deerflow.gateway.extension_routes import mount_extension_routers
from deerflow.host import Host


class HttpFront:
    """The host's routes and those of its extensions."""

    def __init__(self, host: Host, loaded: LoadedExtensions) -> None:
        self._app = create_app(host.config)
        self._app.state.host = host
        self._app.state.extensions = loaded
        self._app.state.extension_diagnostics = loaded.diagnostics
        mount_extension_routers(self._app, loaded)
        set_loaded_extensions(loaded)

    async def request(
        self, method: str, path: str, json: Any, headers: Mapping[str, str] | None
    ) -> tuple[int, str]:
        """Return status and body of what is answered to the local administrator."""
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.request(method, path, json=json, headers=dict(headers or {}))
            return response.status_code, response.text
