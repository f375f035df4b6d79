"""An extension whose service opens a pool of connections, which all of its hooks use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deerflow_extension_api import ExtensionRegistry, ExtensionRuntimeDeps
from psycopg_pool import AsyncConnectionPool


@dataclass(eq=False)
class Pooled:
    """Writes a row for each hook. `touches` is `(what, the loop it ran on)`."""

    url: str
    touches: list[tuple[str, Any]] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    loop: Any = None
    _pool: AsyncConnectionPool | None = None

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        self.loop = asyncio.get_running_loop()
        self._pool = AsyncConnectionPool(self.url, min_size=1, max_size=2, open=False)
        await self._pool.open(wait=True)
        async with self._pool.connection() as connection:
            await connection.execute("CREATE TABLE touches (what text)")

    async def stop(self) -> None:
        assert self._pool is not None
        await self._touch("stop")
        await self._pool.close()

    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        await self._touch(f"start {info.kind}")

    async def on_task_stop(self, app_store: Any, task_store: Any, info: Any, outcome: Any) -> None:
        await self._touch(f"stop {info.kind}")

    async def on_system_model_call(self, app_store: Any, task_store: Any, kind: Any, *call: Any) -> None:
        await self._touch(kind.value)

    async def on_context_compacted(self, app_store: Any, task_store: Any, event: Any) -> None:
        await self._touch("compaction")

    async def _touch(self, what: str) -> None:
        self.touches.append((what, asyncio.get_running_loop()))
        try:
            assert self._pool is not None
            async with self._pool.connection(timeout=5) as connection:
                await connection.execute("INSERT INTO touches VALUES (%s)", (what,))
        except BaseException as error:
            self.failures.append(error)
            raise


def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """Register `config["pooled"]` as everything that it can be."""
    pooled = config["pooled"]
    registry.service(pooled)
    registry.task_lifecycle(pooled)
    registry.system_model_observer(pooled)
    registry.context_compaction_observer(pooled)
