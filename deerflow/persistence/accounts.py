"""Users, their tokens and their sessions in one database. Secrets come and go as digests only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, insert, literal, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from deerflow.errors import ConflictError, InvalidRequestError, NotFoundError
from deerflow.persistence.account_tables import login_sessions, tokens, users
from deerflow.persistence.columns import UtcDateTime
from deerflow.persistence.transactions import Transactions
from deerflow.runs.record import utc_now


@dataclass(frozen=True)
class Account:
    """A user as far as a request needs to know."""

    name: str
    is_admin: bool


@dataclass(frozen=True)
class NewToken:
    """A token to be remembered; `token_id` is what people call it by."""

    token_hash: str
    token_id: str
    is_admin: bool = False


@dataclass(frozen=True)
class TokenEntry:
    """A token as operators see it."""

    token_id: str
    is_admin: bool
    created_at: datetime


@dataclass(frozen=True)
class UserEntry:
    """A user as operators see it; `revoked_at` says since when nothing of the user is accepted."""

    name: str
    is_admin: bool
    has_password: bool
    created_at: datetime
    revoked_at: datetime | None
    tokens: tuple[TokenEntry, ...] = ()


@dataclass(frozen=True)
class NewSession:
    """A session to be remembered; `password_hash` is the digest that the user's password was held against."""

    session_hash: str
    user_name: str
    password_hash: str
    expires_at: datetime


_OF_TOKEN = select(users.c.name, and_(users.c.is_admin, tokens.c.is_admin).label("is_admin")).join_from(
    tokens, users
)
_OF_SESSION = select(users.c.name, users.c.is_admin).join_from(login_sessions, users)


class Accounts:
    """The accounts of one database."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def of_token(self, token_hash: str) -> Account | None:
        """Whose token it is; an administrator's rights are in it only where it was issued so."""
        statement = _OF_TOKEN.where(tokens.c.token_hash == token_hash, users.c.revoked_at.is_(None))
        return await self._account(statement)

    async def of_session(self, session_hash: str) -> Account | None:
        """Whose session it is; `None` once it has expired."""
        statement = _OF_SESSION.where(
            login_sessions.c.session_hash == session_hash,
            login_sessions.c.expires_at > utc_now(),
            users.c.revoked_at.is_(None),
        )
        return await self._account(statement)

    async def password_hash(self, name: str) -> str | None:
        """The digest of a user's password; `None` for unknown and revoked users, and without a password."""
        statement = select(users.c.password_hash).where(users.c.name == name, users.c.revoked_at.is_(None))
        return await self._transactions.read(
            lambda connection: connection.execute(statement).scalar_one_or_none()
        )

    async def renew_password_hash(self, name: str, old: str, new: str) -> None:
        """Keep the same password in another form."""
        statement = update(users).where(users.c.name == name, users.c.password_hash == old)
        await self._transactions.write(lambda c: c.execute(statement.values(password_hash=new)))

    async def open_session(self, session: NewSession) -> bool:
        """Remember a session and forget expired ones; whether the password is still the user's."""
        return await self._transactions.write(lambda connection: _open_session(connection, session))

    async def close_session(self, session_hash: str) -> None:
        """Forget a session."""
        statement = delete(login_sessions).where(login_sessions.c.session_hash == session_hash)
        await self._transactions.write(lambda connection: connection.execute(statement))

    async def add(
        self, name: str, token: NewToken, *, make_admin: bool = False, password_hash: str | None = None
    ) -> bool:
        """Make a user, or let a known one have one more token; whether the user is new.

        A new password ends the sessions that the old one opened. A revoked user is accepted again.
        Raises `InvalidRequestError` for an administrator's token of a user who is none.
        """
        try:
            return await self._transactions.write(
                lambda connection: _add(connection, name, token, make_admin, password_hash)
            )
        except IntegrityError as error:
            raise ConflictError(f"user {name!r} is being added elsewhere; try again") from error

    async def revoke(self, name: str) -> None:
        """Accept nothing of a user any more: tokens, sessions and password go. `NotFoundError`."""
        await self._transactions.write(lambda connection: _revoke(connection, name))

    async def revoke_token(self, name: str, token_id: str) -> None:
        """Accept one token no more. Raises `NotFoundError` where the user has none of that id."""
        statement = delete(tokens).where(tokens.c.user_name == name, tokens.c.token_id == token_id)
        removed = await self._transactions.write(lambda connection: connection.execute(statement).rowcount)
        if not removed:
            raise NotFoundError(f"user {name!r} has no token {token_id!r}; see `deerflow users list`")

    async def list(self) -> list[UserEntry]:
        """All users by name, each with its tokens, oldest first."""
        return await self._transactions.read(_list)

    async def _account(self, statement: Any) -> Account | None:
        row = await self._transactions.read(lambda connection: connection.execute(statement).one_or_none())
        return None if row is None else Account(row.name, bool(row.is_admin))


def _open_session(connection: Connection, session: NewSession) -> bool:
    # The user's row is held, so that no session survives a revocation or a change of the password.
    proven = (users.c.name == session.user_name, users.c.password_hash == session.password_hash)
    statement = select(users.c.name).where(*proven, users.c.revoked_at.is_(None)).with_for_update()
    if connection.execute(statement).one_or_none() is None:
        return False
    now = utc_now()
    connection.execute(delete(login_sessions).where(login_sessions.c.expires_at <= now))
    values = {"session_hash": session.session_hash, "user_name": session.user_name}
    connection.execute(
        insert(login_sessions), {**values, "created_at": now, "expires_at": session.expires_at}
    )
    return True


def _add(
    connection: Connection, name: str, token: NewToken, make_admin: bool, password_hash: str | None
) -> bool:
    row = connection.execute(select(users).where(users.c.name == name).with_for_update()).one_or_none()
    is_admin = make_admin or (row is not None and row.revoked_at is None and row.is_admin)
    if token.is_admin and not is_admin:
        raise InvalidRequestError(f"user {name!r} is no administrator; give --admin with --admin-token")
    now = utc_now()
    if row is None:
        values = {"name": name, "is_admin": is_admin, "password_hash": password_hash, "created_at": now}
        connection.execute(insert(users), values)
    else:
        _change(connection, name, is_admin, password_hash)
    connection.execute(insert(tokens), {**vars(token), "user_name": name, "created_at": now})
    return row is None


def _change(connection: Connection, name: str, is_admin: bool, password_hash: str | None) -> None:
    changed: dict[str, Any] = {"is_admin": is_admin, "revoked_at": None}
    if password_hash is not None:
        changed["password_hash"] = password_hash
        connection.execute(delete(login_sessions).where(login_sessions.c.user_name == name))
    connection.execute(update(users).where(users.c.name == name).values(changed))


def _revoke(connection: Connection, name: str) -> None:
    since = func.coalesce(users.c.revoked_at, literal(utc_now(), UtcDateTime))
    gone = {"revoked_at": since, "password_hash": None, "is_admin": False}
    statement = update(users).where(users.c.name == name).values(gone)
    if connection.execute(statement).rowcount == 0:
        raise NotFoundError(f"there is no user {name!r}; see `deerflow users list`")
    connection.execute(delete(tokens).where(tokens.c.user_name == name))
    connection.execute(delete(login_sessions).where(login_sessions.c.user_name == name))


def _list(connection: Connection) -> list[UserEntry]:
    entries: dict[str, list[TokenEntry]] = {}
    for row in connection.execute(select(tokens).order_by(tokens.c.created_at, tokens.c.token_id)):
        entries.setdefault(row.user_name, []).append(TokenEntry(row.token_id, row.is_admin, row.created_at))
    return [
        UserEntry(
            row.name,
            row.is_admin,
            row.password_hash is not None,
            row.created_at,
            row.revoked_at,
            tuple(entries.get(row.name, ())),
        )
        for row in connection.execute(select(users).order_by(users.c.name))
    ]
