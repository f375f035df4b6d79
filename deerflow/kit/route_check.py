"""Which contributed routes the Gateway would mount, and which it would refuse."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.gateway.app import host_routes
from deerflow.gateway.extension_routes import mount_extension_routers


class RouteTable:
    """The host's routes and those that were added so far, on an application that serves nobody."""

    def __init__(self, config: AppConfig) -> None:
        self._app = FastAPI(routes=host_routes(config), openapi_url=None)

    def add(self, extensions: LoadedExtensions) -> list[str]:
        """Return the routes that are mounted, such as `GET /acme`; refusals become its diagnostics."""
        before = len(self._app.router.routes)
        mount_extension_routers(self._app, extensions)
        return [
            f"{'|'.join(sorted(context.methods or ['any']))} {context.path}"
            for context in iter_route_contexts(self._app.router.routes[before:])
        ]
