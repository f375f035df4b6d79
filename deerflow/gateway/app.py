"""The Gateway's application: extensions loaded once, routes, and a lifespan that is an open host."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from deerflow_extension_api import EXTENSION_PRINCIPAL_RESOLVER_KEY
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from deerflow.config import AppConfig, config_from
from deerflow.extensions import LoadedExtensions, load_extensions, set_loaded_extensions
from deerflow.extensions.outcomes import listen_to_outcomes
from deerflow.gateway.assistants import system_assistant
from deerflow.gateway.auth.authentication import DOCUMENTATION_PATHS, PUBLIC_PATHS, Authentication
from deerflow.gateway.auth.identity import build_identity
from deerflow.gateway.auth.loopback import LOOPBACK_ORIGIN, LoopbackOnly
from deerflow.gateway.body_limit import BodyLimit
from deerflow.gateway.errors import UnexpectedErrors, exception_handlers
from deerflow.gateway.extension_routes import mount_extension_routers
from deerflow.gateway.incoming_trace import IncomingTrace
from deerflow.gateway.metrics import Metrics
from deerflow.gateway.openapi import GatewayApp
from deerflow.gateway.pages import PAGE_HEADERS
from deerflow.gateway.process.settled_heap import settled_heap
from deerflow.gateway.request_ids import REQUEST_ID_HEADER, RequestIds
from deerflow.gateway.routes import (
    assistants,
    auth,
    files,
    stateless_runs,
    store,
    system,
    thread_protocol,
    thread_runs,
    thread_state,
    thread_stream,
    threads,
)
from deerflow.gateway.web_page import page_router, public_page_paths
from deerflow.gateway.webhooks.delivery import Webhooks, open_webhooks
from deerflow.host import HostOptions, open_host
from deerflow.runs.active import ActiveRun
from deerflow.tracing import incoming_trace

EXPOSED_HEADERS = ("Location", "Content-Location", *PAGE_HEADERS, REQUEST_ID_HEADER)


def create_app(config: AppConfig | str | os.PathLike[str] | Mapping[str, Any] | None = None) -> FastAPI:
    """The application. Extensions are loaded here, once, and published as the process-wide set.

    `config` is an `AppConfig`, a path, a mapping, or `None` for the usual search. Raises `ConfigError` for
    a configuration that cannot be used, `ExtensionLoadError` where a required extension fails to load.
    """
    config = config_from(config)
    identity = build_identity(config)
    loaded, diagnostics = load_extensions(config.plugins)
    metrics = Metrics()
    app = GatewayApp(
        public_paths=None if config.auth.mode == "none" else _public_paths(config),
        title="deerflow",
        version=version("deerflow"),
        routes=host_routes(with_users=config.auth.mode == "users"),
        lifespan=_lifespan_of(config, loaded, metrics),
        middleware=_middlewares(config),
        exception_handlers=exception_handlers(),
        redirect_slashes=False,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.state.config = config
    app.state.identity = identity
    app.state.logins = auth.Logins() if config.auth.mode == "users" else None
    app.state.metrics = metrics
    app.state.extensions = loaded
    app.state.extension_diagnostics = diagnostics
    setattr(app.state, EXTENSION_PRINCIPAL_RESOLVER_KEY, identity)
    mount_extension_routers(app, loaded)
    set_loaded_extensions(loaded)
    return app


def host_routes(*, with_users: bool = True) -> list[BaseRoute]:
    """The host's own routes, those first that are asked for most: a request tries one after the other."""
    of_threads = (thread_runs, threads, thread_state, thread_stream, thread_protocol, files)
    resources = (*of_threads, stateless_runs, assistants, store, system, auth)
    routers = [resource.router for resource in resources]
    if with_users:
        routers.append(auth.login_router)
    routers.append(page_router(with_users=with_users))
    return [route for router in routers for route in router.routes]


def _middlewares(config: AppConfig) -> list[Middleware]:
    """Outermost first."""
    origins = Middleware(
        CORSMiddleware,
        allow_origin_regex=LOOPBACK_ORIGIN,
        allow_origins=config.auth.allowed_origins,
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=list(EXPOSED_HEADERS),
    )
    limit = Middleware(BodyLimit, is_exempt=files.is_upload)
    names = Middleware(RequestIds)
    traces = [Middleware(IncomingTrace, within=incoming_trace())] if config.tracing.enabled else []
    if config.auth.mode == "none":
        return [names, *traces, Middleware(LoopbackOnly), origins, Middleware(UnexpectedErrors), limit]
    return [
        names,
        *traces,
        origins,
        Middleware(UnexpectedErrors),
        Middleware(Authentication, public_paths=_public_paths(config) | public_page_paths()),
        limit,
    ]


def _public_paths(config: AppConfig) -> frozenset[str]:
    """The paths that need no sign-in where there are users."""
    return PUBLIC_PATHS | DOCUMENTATION_PATHS if config.auth.public_docs else PUBLIC_PATHS


def _lifespan_of(config: AppConfig, loaded: LoadedExtensions, metrics: Metrics) -> Any:
    def options(webhooks: Webhooks | None) -> HostOptions:
        def on_run_end(run: ActiveRun) -> None:
            metrics.count_run(run)
            if webhooks is not None:
                webhooks.on_run_end(run)

        return HostOptions(services_of=loaded, owns_notification_loop=True, on_run_end=on_run_end)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        release = listen_to_outcomes(metrics.count_hook)
        try:
            # The ends of runs that the host stops at its own end are told, too.
            async with (
                open_webhooks(config.webhooks) as webhooks,
                open_host(config, options(webhooks)) as host,
            ):
                app.state.system_assistant = await system_assistant(host)
                app.state.host = host
                metrics.watch(host)
                with settled_heap():
                    yield
        finally:
            release()
            metrics.watch(None)
            app.state.host = None

    return lifespan
