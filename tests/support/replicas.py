"""Gateways in processes of their own behind one address, of which tests kill one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from deerflow.config import config_from
from deerflow.gateway.app import create_app
from deerflow.gateway.process.serve import GatewayServer, server_config


@tool
async def mark(name: str, waits: bool = False) -> str:
    """Leave a trace that this was done; with `waits` not before the gate is open."""
    folder = Path(os.environ["MARKS"])
    while waits and not (folder / "gate").exists():
        await asyncio.sleep(0.05)
    with (folder / "marks").open("a") as marks:
        marks.write(f"{name}\n")
    return f"marked {name}"


def replica(told: Connection, values: dict[str, Any], home: str) -> None:
    """Serve on a port that the system gives, tell it, and wait to be killed."""
    os.environ["MARKS"] = home
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = create_app(config_from(values).based_in(Path(home)))
    told.send(port)
    GatewayServer(server_config(app, "127.0.0.1", port)).run(sockets=[listener])


@asynccontextmanager
async def balancer(ports: list[int]) -> AsyncIterator[str]:
    """The address of something that leads each connection to the first of `ports` that takes it."""
    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(_lead(ports, reader, writer))
        connections.add(connection)
        connection.add_done_callback(connections.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _lead(ports: list[int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for port in ports:
        with suppress(OSError):
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, other_writer), _pump(other_reader, writer))
            return
    writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes; where one side is gone, the other one goes too."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
