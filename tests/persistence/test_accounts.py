"""Users, tokens and sessions on every database."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from deerflow.errors import ConflictError, InvalidRequestError, NotFoundError
from deerflow.persistence import Accounts, Database
from deerflow.persistence.accounts import Account, NewSession, NewToken
from deerflow.runs.record import utc_now


def _token(n: int, *, is_admin: bool = False) -> NewToken:
    return NewToken(f"hash-{n}", f"id-{n}", is_admin)


@pytest.fixture
def accounts(database: Database) -> Accounts:
    return Accounts(database.transactions)


async def test_token_means_its_user_with_no_more_rights_than_both_have(accounts: Accounts) -> None:
    assert await accounts.add("root", _token(1), make_admin=True)
    assert not await accounts.add("root", _token(2, is_admin=True))
    assert await accounts.of_token("hash-1") == Account("root", False)
    assert await accounts.of_token("hash-2") == Account("root", True)
    assert await accounts.of_token("id-2") is None
    with pytest.raises(InvalidRequestError, match="no administrator"):
        await accounts.add("alice", _token(3, is_admin=True))
    assert [user.name for user in await accounts.list()] == ["root"]


async def test_revoked_user_returns_with_what_is_given_then(accounts: Accounts) -> None:
    await accounts.add("root", _token(1, is_admin=True), make_admin=True, password_hash="p")
    await accounts.open_session(NewSession("s", "root", "p", utc_now() + timedelta(hours=1)))
    assert await accounts.of_session("s") == Account("root", True)
    await accounts.revoke("root")
    since = (await accounts.list())[0].revoked_at
    await accounts.revoke("root")
    assert (await accounts.list())[0].revoked_at == since
    assert (await accounts.of_token("hash-1"), await accounts.of_session("s")) == (None, None)
    assert await accounts.password_hash("root") is None
    await accounts.add("root", _token(2))
    (user,) = await accounts.list()
    assert (user.is_admin, user.has_password, user.revoked_at) == (False, False, None)
    assert [token.token_id for token in user.tokens] == ["id-2"]


async def test_expired_sessions_are_removed_when_others_open(accounts: Accounts, database: Database) -> None:
    await accounts.add("alice", _token(1), password_hash="p")
    now = utc_now()
    await accounts.open_session(NewSession("old", "alice", "p", now - timedelta(seconds=1)))
    assert await accounts.of_session("old") is None
    assert await accounts.open_session(NewSession("new", "alice", "p", now + timedelta(hours=1)))
    assert not await accounts.open_session(NewSession("bad", "alice", "other", now + timedelta(hours=1)))
    await accounts.close_session("new")
    assert await accounts.of_session("new") is None


async def test_renewed_digest_replaces_only_the_one_that_it_was_made_of(accounts: Accounts) -> None:
    await accounts.add("alice", _token(1), password_hash="p")
    await accounts.renew_password_hash("alice", "other", "q")
    assert await accounts.password_hash("alice") == "p"
    await accounts.renew_password_hash("alice", "p", "q")
    assert await accounts.password_hash("alice") == "q"


async def test_user_added_by_several_at_once_is_one(accounts: Accounts) -> None:
    added = await asyncio.gather(
        *(accounts.add("alice", _token(n)) for n in range(8)), return_exceptions=True
    )
    assert all(isinstance(result, bool | ConflictError) for result in added)
    (user,) = await accounts.list()
    assert len(user.tokens) == sum(isinstance(result, bool) for result in added)


async def test_what_is_not_there_cannot_be_revoked(accounts: Accounts) -> None:
    await accounts.add("alice", _token(1))
    await accounts.add("bob", _token(2))
    with pytest.raises(NotFoundError):
        await accounts.revoke("nobody")
    with pytest.raises(NotFoundError):
        await accounts.revoke_token("alice", "id-2")
    assert await accounts.of_token("hash-2") == Account("bob", False)
