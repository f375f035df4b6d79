"""Post the ends of runs to those who asked for it: beside the runs, bounded, and again where it fails."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Final

import httpx

from deerflow.config.webhooks import WebhooksConfig
from deerflow.gateway.shapes import run_json
from deerflow.gateway.webhooks.addresses import WebhookRefusedError, resolve, shown_origin
from deerflow.runs.active import ActiveRun
from deerflow.runs.ending import ROLLBACK
from deerflow.runs.record import utc_now
from deerflow.runs.serialize import encode_json

logger = logging.getLogger(__name__)

MOST_PENDING: Final = 1_000
MOST_PENDING_BYTES: Final = 64 * 1024 * 1024
CALLS_AT_ONCE: Final = 16
FIRST_DELAY_SECONDS: Final = 1.0
LONGEST_DELAY_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 5.0
"""How long, at the end, what is pending may take; it is tried at once, and given up then."""

_HEADERS: Final = {"User-Agent": f"deerflow/{version('deerflow')}", "Content-Type": "application/json"}
_WORTH_REPEATING: Final = frozenset({408, 425, 429})


@dataclass(frozen=True)
class _Delivery:
    run_id: str
    url: str
    body: bytes


class Webhooks:
    """The deliveries that are under way. Belongs to one event loop."""

    def __init__(self, config: WebhooksConfig, transport: httpx.AsyncBaseTransport) -> None:
        self._config = config
        # No client of httpx: it writes whole URLs to the log, and secrets stand there. Nor is a proxy used,
        # which would look the name up once more, and may be led elsewhere.
        self._transport = transport
        self._timeouts = httpx.Timeout(config.timeout_seconds).as_dict()
        self._room = asyncio.Semaphore(CALLS_AT_ONCE)
        self._deliveries: dict[asyncio.Task[None], _Delivery] = {}
        self._bytes = 0
        self._closing = asyncio.Event()
        self._closed = False

    def on_run_end(self, run: ActiveRun) -> None:
        """Have the end of a run delivered, where it has a webhook; returns at once."""
        url = run.request.webhook
        if url is None or run.lost or run.ending is None or run.ending.stop_reason == ROLLBACK:
            return
        if self._closed:  # of a run that was abandoned, as it did not stop in time
            _warn_of_loss(run.run_id)
            return
        delivery = _Delivery(run.run_id, url, encode_json(_payload(run)))
        if len(self._deliveries) >= MOST_PENDING or self._bytes + len(delivery.body) > MOST_PENDING_BYTES:
            logger.warning("webhook of run %s is dropped: too many are pending", run.run_id)
            return
        self._bytes += len(delivery.body)
        task = asyncio.create_task(self._deliver(delivery), name=f"webhook of run {run.run_id}")
        self._deliveries[task] = delivery
        task.add_done_callback(self._forget)

    async def close(self) -> None:
        """Give what is pending a moment, then give it up. What comes later is not delivered either."""
        self._closing.set()
        if self._deliveries:
            await asyncio.wait(self._deliveries, timeout=CLOSE_SECONDS)
        self._closed = True
        late = [task for task in self._deliveries if not task.done()]
        for task in late:
            task.cancel()
            _warn_of_loss(self._deliveries[task].run_id)
        if late:
            await asyncio.wait(late)

    def _forget(self, task: asyncio.Task[None]) -> None:
        delivery = self._deliveries.pop(task)
        self._bytes -= len(delivery.body)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("webhook of run %s failed unexpectedly", delivery.run_id, exc_info=error)

    async def _deliver(self, delivery: _Delivery) -> None:
        problem = ""
        for attempt in range(self._config.max_attempts):
            if attempt:
                await self._pause(attempt)
            problem, is_final = await self._try(delivery, attempt)
            if not problem:
                return
            if is_final:
                break
        logger.warning(
            "webhook of run %s at %s failed: %s", delivery.run_id, shown_origin(delivery.url), problem
        )

    async def _pause(self, attempt: int) -> None:
        """Wait before an attempt. At the end of the process no pause goes on, and further ones are short."""
        if self._closing.is_set():
            await asyncio.sleep(_delay_seconds(1))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_delay_seconds(attempt)):
                await self._closing.wait()

    async def _try(self, delivery: _Delivery, attempt: int) -> tuple[str, bool]:
        """What went wrong, if anything, and whether trying again is in vain."""
        try:
            async with self._room, asyncio.timeout(self._config.timeout_seconds):
                status = await self._post(delivery, attempt)
        except WebhookRefusedError as error:
            return str(error), True
        except (httpx.HTTPError, OSError, TimeoutError) as error:
            # The texts of these may hold the URL, and with it a secret.
            return type(error).__name__, False
        if 200 <= status < 300:
            return "", True
        return f"status {status}", not (status >= 500 or status in _WORTH_REPEATING)

    async def _post(self, delivery: _Delivery, attempt: int) -> int:
        targets = await resolve(delivery.url, self._config)
        target = targets[attempt % len(targets)]
        request = httpx.Request(
            "POST",
            target.url,
            content=delivery.body,
            headers={**_HEADERS, "Host": target.host_header},
            extensions={"timeout": self._timeouts, "sni_hostname": target.host},
        )
        response = await self._transport.handle_async_request(request)
        try:
            return response.status_code  # whatever it says beside it is not read, nor a redirect followed
        finally:
            await response.aclose()


@asynccontextmanager
async def open_webhooks(config: WebhooksConfig) -> AsyncIterator[Webhooks | None]:
    """The deliveries of one process; None where the operator allows no address."""
    if not config.allow:
        yield None
        return
    limits = httpx.Limits(max_connections=CALLS_AT_ONCE, max_keepalive_connections=0)
    async with httpx.AsyncHTTPTransport(limits=limits, trust_env=False) as transport:
        webhooks = Webhooks(config, transport)
        try:
            yield webhooks
        finally:
            await webhooks.close()


def _warn_of_loss(run_id: str) -> None:
    logger.warning("webhook of run %s was not delivered before the end", run_id)


def _payload(run: ActiveRun) -> dict[str, Any]:
    """The run at its end, its final state, and when that was."""
    ending = run.ending
    assert ending is not None, "only ends of runs are told"
    now = utc_now()
    record = replace(run.record, status=ending.status, stop_reason=ending.stop_reason, updated_at=now)
    told = {**run_json(record), "values": dict(run.values) or None, "run_ended_at": now}
    if ending.error is not None:
        told["error"] = {"error": ending.error[0], "message": ending.error[1]}
    return told


def _delay_seconds(attempt: int) -> float:
    longest = min(FIRST_DELAY_SECONDS * 2.0 ** (attempt - 1), LONGEST_DELAY_SECONDS)
    return longest * (1 + random.random()) / 2
