"""Gateways with users, and clients that act for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from deerflow.gateway.app import create_app
from deerflow.gateway.auth.credentials import new_token
from deerflow.gateway.auth.passwords import hash_password
from deerflow.persistence import Accounts
from support.gateways import GatewayClient
from support.hosts import scripted_config


class UsersGateway:
    """A started Gateway with `auth.mode: users`."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.clients: list[GatewayClient] = []

    @property
    def accounts(self) -> Accounts:
        return Accounts(self.app.state.host.database.transactions)

    def client(self, token: str | None = None, **options: Any) -> GatewayClient:
        """A client with a token, or an anonymous one."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(self.app, **options.pop("transport", {}))
        client = GatewayClient(
            transport=transport, headers=headers, timeout=30, **{"base_url": "http://gateway", **options}
        )
        client.app = self.app
        self.clients.append(client)
        return client

    async def add(
        self, name: str, *, admin: bool = False, admin_token: bool = False, password: str | None = None
    ) -> str:
        """Add a user and return a token."""
        token, kept = new_token(is_admin=admin_token)
        password_hash = None if password is None else hash_password(password)
        await self.accounts.add(name, kept, make_admin=admin, password_hash=password_hash)
        return token

    async def user(self, name: str) -> GatewayClient:
        """A client of a new user."""
        return self.client(await self.add(name))

    async def admin(self, name: str = "root") -> GatewayClient:
        """A client of a new administrator."""
        return self.client(await self.add(name, admin=True, admin_token=True))


def users_app(home: Path, rules: Sequence[dict[str, Any]] = (), **sections: Any) -> FastAPI:
    """An application with users, their database in `home`."""
    auth = {"mode": "users", **sections.pop("auth", {})}
    sections = {"shutdown": {"drain_seconds": 0.01}, "database": {"backend": "sqlite"}, **sections}
    return create_app(scripted_config(home, rules, auth=auth, **sections))


@asynccontextmanager
async def serving_users(app: FastAPI) -> AsyncIterator[UsersGateway]:
    """Start an application; its clients are closed with it."""
    async with app.router.lifespan_context(app):
        gateway = UsersGateway(app)
        try:
            yield gateway
        finally:
            for client in gateway.clients:
                await client.aclose()


@asynccontextmanager
async def users_gateway(
    home: Path, rules: Sequence[dict[str, Any]] = (), **sections: Any
) -> AsyncIterator[UsersGateway]:
    """A started Gateway with users."""
    async with serving_users(users_app(home, rules, **sections)) as gateway:
        yield gateway
