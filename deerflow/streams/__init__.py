"""The events of runs where other hosts can read them.

The client of Redis is an extra: nothing here imports it before a configuration asks for it.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deerflow.config.storage import StreamConfig
from deerflow.errors import ConfigError
from deerflow.runs.hosts.relay import EventRelay

__all__ = ["open_relay"]


@asynccontextmanager
async def open_relay(config: StreamConfig) -> AsyncIterator[EventRelay | None]:
    """What the configuration names, or `None` where each process streams its own runs alone.

    A server that is away costs a warning: it is asked again for as long as the host lives.
    """
    if config.backend == "memory":
        yield None
        return
    try:
        redis_relay = await asyncio.to_thread(importlib.import_module, f"{__name__}.redis_relay")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"stream.backend: {error.name} is not installed; pip install 'deerflow[redis]', or set memory"
        ) from error
    async with redis_relay.open_redis_relay(config) as relay:
        yield relay
