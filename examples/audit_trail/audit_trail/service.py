"""Opens the trail with the host, and closes it when everything is stored."""

from __future__ import annotations

import asyncio
import logging

from deerflow_extension_api import ExtensionData, ExtensionRuntimeDeps, ExtensionService

from audit_trail.store import ChainStore
from audit_trail.trail import Trail

logger = logging.getLogger(__name__)

LAST_FLUSH_SECONDS = 20.0


class AuditTrailService(ExtensionService):
    """Owns the task that stores. The open trail and its store stand in the app store, by their types."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._app_store: ExtensionData | None = None
        self._writer: asyncio.Task[None] | None = None

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        if deps.session_factory is None or deps.app_store is None:
            raise RuntimeError(
                "the audit trail needs a database that lasts: set database.backend to sqlite or postgres"
            )
        store = ChainStore(deps.session_factory, self._key)
        await store.upgrade()
        trail = Trail(store)
        self._writer = asyncio.create_task(trail.write(), name="audit trail")
        self._app_store = deps.app_store
        deps.app_store.set(store)
        deps.app_store.set(trail)
        await _log_head(store, "goes on")

    async def stop(self) -> None:
        trail = self._app_store.remove(Trail) if self._app_store is not None else None
        store = self._app_store.get(ChainStore) if self._app_store is not None else None
        if trail is None or store is None or self._writer is None:
            return
        try:
            async with asyncio.timeout(LAST_FLUSH_SECONDS):
                await trail.flush()
                await _log_head(store, "ends")
        finally:
            self._writer.cancel()
            await asyncio.wait({self._writer})


async def _log_head(store: ChainStore, what: str) -> None:
    """Say outside of the database where the chain stands: a cut-off end cannot be seen inside of it."""
    head = await store.head()
    logger.info("audit trail %s after entry %d, digest %s", what, head.seq, head.digest)
