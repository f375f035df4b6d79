"""Contributed routers: each is looked at before it is mounted, and mounted whole or not at all."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import BaseRoute, Host, Mount, Route, WebSocketRoute

from deerflow.extensions import LoadedExtensions
from deerflow.extensions.cancellation import must_propagate
from deerflow.extensions.diagnostics import error_text, logger, report, type_name
from deerflow.gateway.path_patterns import PathPattern

# Public paths of the host, whether it serves them in this configuration or not.
RESERVED: Final = (
    "/ok", "/health", "/info", "/auth", "/docs", "/redoc", "/openapi.json", "/metrics", "/webhooks",
)  # fmt: skip
THE_HOST: Final = "the host"
_ALL_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})


class RouterRefused(Exception):
    """Why a router is not mounted."""


@dataclass(frozen=True)
class HeldRoute:
    """A path with methods, and whose it is."""

    pattern: PathPattern
    methods: frozenset[str]
    owner: str

    def __str__(self) -> str:
        return f"{'|'.join(sorted(self.methods))} {self.pattern.path}"


def mount_extension_routers(app: FastAPI, loaded: LoadedExtensions) -> None:
    """Mount what can be mounted, after all routes that `app` has; report the rest as diagnostics."""
    held = list(_held_by(THE_HOST, app.router.routes))
    mounted: list[str] = []
    for source, router in loaded.routers:
        try:
            routes = _preflight(router, source, held)
            _include(app, router)
        except RouterRefused as refusal:
            report(loaded.diagnostics, "error", source, f"router rejected: {refusal}")
        except BaseException as error:  # a router is an object of the extension's
            if must_propagate(error):
                raise
            message = f"router could not be mounted: {error_text(error)}"
            report(loaded.diagnostics, "error", source, message, error=error)
        else:
            held += routes
            mounted += [f"{source} -> {path}" for path in dict.fromkeys(r.pattern.path for r in routes)]
    if mounted:
        logger.info("Extension routers mounted: %s", "; ".join(mounted))


def _preflight(router: Any, source: str, held: Sequence[HeldRoute]) -> list[HeldRoute]:
    """The routes that `router` would add. Raises `RouterRefused` where one of them, or it itself, cannot."""
    if not isinstance(router, APIRouter):
        raise RouterRefused(f"a fastapi.APIRouter is needed, this is a {type_name(router)}")
    for part in _nested_routers(router):
        _check_life_cycle(part)
    routes = list(_held_by(source, router.routes))
    for index, route in enumerate(routes):
        _check_reserved(route)
        _check_shadowed(route, [*held, *routes[:index]])
    return routes


def _held_by(owner: str, routes: Sequence[BaseRoute]) -> Iterator[HeldRoute]:
    for context in iter_route_contexts(routes):
        route = context.original_route
        if isinstance(route, WebSocketRoute):
            raise RouterRefused(f"WebSocket route {context.path}: only HTTP routes can be contributed")
        if isinstance(route, Mount | Host):
            raise RouterRefused(
                f"{type(route).__name__} {context.path or ''}: applications cannot be mounted; add routes"
            )
        if not isinstance(route, Route) or context.path is None:
            raise RouterRefused(f"a route of the unknown kind {type_name(route)}")
        methods = frozenset(_ALL_METHODS if context.methods is None else context.methods)
        yield HeldRoute(PathPattern(context.path), methods, owner)


def _check_reserved(route: HeldRoute) -> None:
    for namespace in RESERVED:
        if route.pattern.can_reach(namespace):
            raise RouterRefused(f"{route} can reach {namespace}, which is reserved for the host")


def _check_shadowed(route: HeldRoute, held: Sequence[HeldRoute]) -> None:
    for earlier in held:
        shared = route.methods & earlier.methods
        if shared and earlier.pattern.covers(route.pattern):
            raise RouterRefused(f"{route} is already served by {earlier} of {earlier.owner}")


def _nested_routers(router: APIRouter) -> Iterator[APIRouter]:
    yield router
    for route in router.routes:
        inner = getattr(route, "original_router", None)  # FastAPI keeps included routers as they are
        if isinstance(inner, APIRouter):
            yield from _nested_routers(inner)


def _check_life_cycle(router: APIRouter) -> None:
    if router.on_startup or router.on_shutdown:
        raise RouterRefused("on_startup and on_shutdown would not run; contribute a service instead")
    if _has_own_lifespan(router.lifespan_context):
        raise RouterRefused("its lifespan would not run; contribute a service instead")
    if getattr(router, "_low_priority_routes", None):
        raise RouterRefused("it serves a folder of files; add routes")


def _has_own_lifespan(context: Callable[..., Any]) -> bool:
    if type(context) is type(APIRouter().lifespan_context):
        return False
    # A router that includes others has the lifespans of all of them, merged two by two.
    parts = inspect.getclosurevars(inspect.unwrap(context)).nonlocals if inspect.isfunction(context) else {}
    if parts.keys() >= {"original_context", "nested_context"}:
        return any(map(_has_own_lifespan, (parts["original_context"], parts["nested_context"])))
    return True


def _include(app: FastAPI, router: APIRouter) -> None:
    before = len(app.router.routes)
    lifespan = app.router.lifespan_context
    try:
        app.include_router(router)
        # FastAPI builds the routes of included routers when it first needs them: let it fail here.
        for context in iter_route_contexts(app.router.routes[before:]):
            _ = context.path
    except BaseException:
        del app.router.routes[before:]
        raise
    finally:
        app.router.lifespan_context = lifespan  # the router has none of its own
