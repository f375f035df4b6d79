"""Calls that go to another AxonX service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from axonx.components.job.events import ResultEvent
from axonx.errors import TargetError

if TYPE_CHECKING:
    from axonx.client.base import BaseClient
    from axonx.components.job.base import EventStream
    from axonx.components.job.response import JobResponse
    from axonx.core.app_context import AppContext

_CLIENT = ("client", "http")


def parse_target(target: str) -> str:
    """The address as `scheme://host:port[/path]`; raises `TargetError`, a `ValueError`."""
    problem = TargetError(f"Invalid target: {target!r}; expected host:port or HTTP(S) URL")
    if not isinstance(target, str) or any(character.isspace() for character in target):
        raise problem
    parts = urlsplit(target if "://" in target else f"http://{target}")
    try:
        port = parts.port
    except ValueError:
        raise problem from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise problem
    if port is None and "://" not in target:
        raise problem
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


class RemoteCalls:
    """One client for each configured target, started when it is first used."""

    def __init__(self, app_context: AppContext) -> None:
        self._app_context = app_context
        self._tokens = {parse_target(target.address): target.token for target in app_context.config.targets}
        self._clients: dict[str, BaseClient] = {}
        if self._tokens:
            # Imported before anything runs: a missing package is found here, and no call waits for it.
            app_context.registry.get(*_CLIENT)

    async def run(self, target: str, job: str, arguments: Any) -> JobResponse:
        client = self._client(target)
        await client.start()
        return await client.run_job(job, arguments)

    def stream(self, target: str, job: str, arguments: Any) -> EventStream:
        return self._events(self._client(target), job, arguments)

    async def close(self) -> list[BaseException]:
        """Close every client; returns what failed."""
        clients, self._clients = self._clients, {}
        errors: list[BaseException] = []
        for client in clients.values():
            try:
                await client.close()
            except Exception as error:  # noqa: BLE001 - one failure must not keep the others open
                errors.append(error)
        return errors

    def _client(self, target: str) -> BaseClient:
        address = parse_target(target)
        if address not in self._tokens:
            raise TargetError(f"AxonX target is not configured: {address!r}; add it under targets")
        client = self._clients.get(address)
        if client is None:
            category, backend = _CLIENT
            cls = self._app_context.registry.get(category, backend)
            client = self._clients[address] = cast(
                "BaseClient",
                cls(
                    name=address,
                    backend=backend,
                    app_context=self._app_context,
                    address=address,
                    token=self._tokens[address],
                ),
            )
        return client

    async def _events(self, client: BaseClient, job: str, arguments: Any) -> EventStream:
        if client not in self._clients.values():
            yield ResultEvent(success=False, answer="NotRunningError: Application is not running")
            return
        await client.start()
        async for event in client.stream_job(job, arguments):
            yield event
