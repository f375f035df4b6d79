"""`deerflow users`: who may call the Gateway where `auth.mode` is `users`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from deerflow.config import load_config
from deerflow.errors import ConfigError
from deerflow.gateway.auth.credentials import checked_password, checked_user_name, new_token
from deerflow.gateway.auth.passwords import hash_password
from deerflow.persistence import Accounts, open_database
from deerflow.persistence.accounts import UserEntry

_config_option = click.option("--config", "config_path", type=click.Path(), help="The configuration file.")


@click.group()
def command() -> None:
    """Look after the users of the configured database."""


@command.command()
@click.argument("name")
@click.option("--admin", is_flag=True, help="The user is an administrator: with a password, not with tokens.")
@click.option("--admin-token", is_flag=True, help="The new token carries the administrator's rights.")
@click.option("--password", "with_password", is_flag=True, help="Ask for a password, or read it from stdin.")
@_config_option
def add(name: str, admin: bool, admin_token: bool, with_password: bool, config_path: str | None) -> None:
    """Add NAME, or give a known user a further token. The token is printed once and kept nowhere."""
    name = checked_user_name(name)
    password_hash = hash_password(checked_password(_read_password())) if with_password else None
    token, kept = new_token(is_admin=admin_token)

    async def work() -> bool:
        async with _accounts(config_path) as accounts:
            return await accounts.add(name, kept, make_admin=admin, password_hash=password_hash)

    is_new = asyncio.run(work())
    click.echo(f"{'added' if is_new else 'kept'} {name}; token {kept.token_id}, shown this once:", err=True)
    click.echo(token)


@command.command("list")
@_config_option
def list_users(config_path: str | None) -> None:
    """Show the users and their tokens' ids."""

    async def work() -> list[UserEntry]:
        async with _accounts(config_path) as accounts:
            return await accounts.list()

    for user in asyncio.run(work()):
        click.echo(_line(user))


@command.command()
@click.argument("name")
@click.option("--token", "token_id", help="Only the token with this id.")
@_config_option
def revoke(name: str, token_id: str | None, config_path: str | None) -> None:
    """Accept nothing of NAME any more. What the user owns stays, and a later `add` gives it back."""
    name = checked_user_name(name)

    async def work() -> None:
        async with _accounts(config_path) as accounts:
            if token_id is None:
                await accounts.revoke(name)
            else:
                await accounts.revoke_token(name, token_id)

    asyncio.run(work())
    click.echo(f"revoked {name}" if token_id is None else f"revoked token {token_id} of {name}")


@asynccontextmanager
async def _accounts(config_path: str | None) -> AsyncIterator[Accounts]:
    config = load_config(config_path)
    if config.database_url is None:
        raise ConfigError("database.backend: memory keeps no users; set sqlite or postgres")
    async with open_database(config) as database:
        yield Accounts(database.transactions)


def _read_password() -> str:
    if sys.stdin.isatty():
        password: str = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")


def _line(user: UserEntry) -> str:
    if user.revoked_at is not None:
        return f"{user.name}  revoked {user.revoked_at:%Y-%m-%d}"
    traits = [word for word, has in (("admin", user.is_admin), ("password", user.has_password)) if has]
    tokens = [f"{token.token_id}{' (admin)' if token.is_admin else ''}" for token in user.tokens]
    return "  ".join([user.name, *traits, f"tokens: {', '.join(tokens) or 'none'}"])
