"""Which contributed routes the Gateway would mount, and which it would refuse."""

from __future__ import annotations

from fastapi.routing import iter_route_contexts

from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions, get_loaded_extensions, set_loaded_extensions
from deerflow.gateway.app import create_app
from deerflow.gateway.extension_routes import mount_extension_routers


class RouteTable:
    """The host's routes and those that were added so far, on an application that serves nobody."""

    def __init__(self, config: AppConfig) -> None:
        current = get_loaded_extensions()
        try:
            self._app = create_app(config.model_copy(update={"plugins": ()}))
        finally:
            set_loaded_extensions(current)

    def add(self, extensions: LoadedExtensions) -> list[str]:
        """Return the routes that are mounted, such as `GET /acme`; refusals become its diagnostics."""
        before = len(self._app.router.routes)
        mount_extension_routers(self._app, extensions)
        return [
            f"{'|'.join(sorted(context.methods or ['any']))} {context.path}"
            for context in iter_route_contexts(self._app.router.routes[before:])
        ]
