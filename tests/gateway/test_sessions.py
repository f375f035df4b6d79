"""Logging in with a password: sessions, their cookies, and what they protect against."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher
from support.gateways import GatewayClient
from support.users import UsersGateway, serving_users, users_app, users_gateway

from deerflow.gateway.auth import passwords
from deerflow.gateway.auth.credentials import digest
from deerflow.gateway.routes.auth import WRONG
from deerflow.persistence.accounts import NewSession
from deerflow.runs.record import utc_now

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing is slow on purpose, and takes as long as it likes everywhere but in tests."""
    monkeypatch.setattr(passwords, "_hashes", PasswordHash((Argon2Hasher(time_cost=1, memory_cost=64),)))


async def _log_in(client: GatewayClient, name: str = "alice", password: str = PASSWORD) -> httpx.Response:
    return await client.post("/auth/login", json={"username": name, "password": password})


async def _logged_in(gateway: UsersGateway, **options: Any) -> GatewayClient:
    """A client with the session of a user, made where she is not there, and her CSRF token as a header."""
    if "alice" not in [user.name for user in await gateway.accounts.list()]:
        await gateway.add("alice", password=PASSWORD)
    client = gateway.client(**options)
    response = await _log_in(client)
    assert response.status_code == 200, response.text
    client.headers["X-CSRF-Token"] = client.cookies["csrf_token"]
    return client


async def test_login_opens_a_session_of_its_user(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        client = await _logged_in(gateway)
        assert (await client.get("/auth/me")).json()["username"] == "alice"
        thread_id = await client.thread()
        assert (await client.get(f"/threads/{thread_id}")).status_code == 200


async def test_session_carries_the_rights_of_its_user(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        await gateway.add("root", admin=True, password=PASSWORD)
        client = gateway.client()
        assert (await _log_in(client, " Root ")).json()["username"] == "root"
        assert (await client.get("/auth/me")).json() == {
            "username": "root",
            "is_admin": True,
            "roles": ["admin"],
        }


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_cookies_are_kept_from_scripts_other_sites_and_plain_connections(
    tmp_path: Path, scheme: str
) -> None:
    async with users_gateway(tmp_path, auth={"session_seconds": 1000}) as gateway:
        await gateway.add("alice", password=PASSWORD)
        response = await _log_in(gateway.client(base_url=f"{scheme}://gateway"))
        session, csrf = response.headers.get_list("set-cookie")
        assert session.startswith("deerflow_session=") and csrf.startswith("csrf_token=")
        for cookie in (session, csrf):
            assert "SameSite=lax" in cookie and "Max-Age=1000" in cookie and "Path=/" in cookie
            assert ("Secure" in cookie) is (scheme == "https")
        assert "HttpOnly" in session and "HttpOnly" not in csrf
        assert response.json()["csrf_token"] in csrf


async def test_state_changing_requests_repeat_the_csrf_token(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        client, other = await _logged_in(gateway), await _logged_in(gateway)
        right, wrong = client.headers.pop("X-CSRF-Token"), other.headers["X-CSRF-Token"]
        given = ("", "x", wrong, right.upper(), right + "x")
        for headers in ({}, *({"X-CSRF-Token": value} for value in given)):
            for method, path in (("POST", "/threads"), ("DELETE", "/nowhere"), ("POST", "/auth/logout")):
                response = await client.request(method, path, json={}, headers=headers)
                assert (response.status_code, "X-CSRF-Token" in response.json()["detail"]) == (403, True)
        assert (await client.get("/auth/me")).status_code == 200
        assert (await client.post("/threads", json={}, headers={"X-CSRF-Token": right})).status_code == 200


async def test_csrf_cookie_alone_is_no_proof(tmp_path: Path) -> None:
    """Another page of the same site may set cookies; it cannot make up the token of the session."""
    async with users_gateway(tmp_path) as gateway:
        client = await _logged_in(gateway)
        client.cookies.set("csrf_token", "mine", domain="gateway.local")
        assert (await client.post("/threads", json={}, headers={"X-CSRF-Token": "mine"})).status_code == 403


async def test_token_needs_no_csrf_token_and_comes_before_a_cookie(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        client = await _logged_in(gateway)
        bob = {"Authorization": f"Bearer {await gateway.add('bob')}", "X-CSRF-Token": ""}
        assert (await client.post("/threads", json={}, headers=bob)).status_code == 200
        assert (await client.get("/auth/me", headers=bob)).json()["username"] == "bob"
        assert (await client.get("/auth/me", headers={"Authorization": "Bearer x"})).status_code == 401


async def test_logout_ends_the_session_for_whoever_has_its_cookie(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        client = await _logged_in(gateway)
        stolen = gateway.client(cookies=dict(client.cookies))
        other = await _logged_in(gateway)
        response = await client.post("/auth/logout")
        assert (response.status_code, dict(client.cookies)) == (204, {})
        assert [(await c.get("/auth/me")).status_code for c in (client, stolen, other)] == [401, 401, 200]


async def test_sessions_outlive_the_process_and_are_those_of_every_worker(tmp_path: Path) -> None:
    async with serving_users(users_app(tmp_path)) as first, serving_users(users_app(tmp_path)) as second:
        client = await _logged_in(first)
        kept = {"cookies": dict(client.cookies), "headers": {"X-CSRF-Token": client.headers["X-CSRF-Token"]}}
        assert (await _thread(second, kept)).status_code == 200
    async with serving_users(users_app(tmp_path)) as third:
        assert (await _thread(third, kept)).status_code == 200


async def _thread(gateway: UsersGateway, kept: dict[str, Any]) -> httpx.Response:
    client = gateway.client(cookies=kept["cookies"])
    return await client.post("/threads", json={}, headers=kept["headers"])


async def test_sessions_end_in_time_and_expired_ones_are_forgotten(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        await gateway.add("alice", password=PASSWORD)
        kept = await gateway.accounts.password_hash("alice")
        assert kept is not None
        past = utc_now() - timedelta(seconds=1)
        assert await gateway.accounts.open_session(NewSession(digest("old"), "alice", kept, past))
        client = gateway.client(cookies={"deerflow_session": "old"})
        assert (await client.get("/auth/me")).status_code == 401


async def test_new_password_and_revocation_end_sessions(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        client = await _logged_in(gateway)
        await gateway.add("alice", password="another password")
        assert (await client.get("/auth/me")).status_code == 401
        assert (await _log_in(client)).status_code == 401
        assert (await _log_in(client, password="another password")).status_code == 200
        await gateway.accounts.revoke("alice")
        assert (await client.get("/auth/me")).status_code == 401
        assert (await _log_in(client, password="another password")).status_code == 401


async def test_password_that_changes_while_it_is_compared_opens_no_session(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        await gateway.add("alice", password=PASSWORD)
        old = await gateway.accounts.password_hash("alice")
        assert old is not None
        await gateway.add("alice", password="another password")
        later = utc_now() + timedelta(hours=1)
        assert not await gateway.accounts.open_session(NewSession(digest("s"), "alice", old, later))


async def test_nobody_learns_which_users_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    compare = passwords._hashes.verify_and_update
    monkeypatch.setattr(
        passwords._hashes,
        "verify_and_update",
        lambda password, kept: compared.append(kept.rsplit("$", 2)[0]) or compare(password, kept),
    )
    async with users_gateway(tmp_path) as gateway:
        await gateway.add("alice", password=PASSWORD)
        await gateway.add("tokens-only")
        await gateway.add("gone", password=PASSWORD)
        await gateway.accounts.revoke("gone")
        answers = [
            await _log_in(gateway.client(), name, "a wrong one")
            for name in ("alice", "tokens-only", "gone", "nobody", "", "x" * 256, "\x00", "ä")
        ]
        assert {(a.status_code, a.text) for a in answers} == {(401, f'{{"detail":"{WRONG}"}}')}
        assert len(compared) == len(answers)
        assert len(set(compared)) == 1, "every comparison costs the same"


async def test_tries_to_log_in_are_limited_also_for_users_that_do_not_exist(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        await gateway.add("alice", password=PASSWORD)
        client = gateway.client()
        for name in ("alice", "nobody"):
            statuses = [(await _log_in(client, name, "wrong one")).status_code for _ in range(11)]
            assert statuses == [401] * 10 + [429]
        refused = await _log_in(client)
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= 900


async def test_success_does_not_count_as_a_try(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        await gateway.add("alice", password=PASSWORD)
        client = gateway.client()
        assert [(await _log_in(client)).status_code for _ in range(12)] == [200] * 12


@pytest.mark.parametrize(
    "body",
    [
        *({}, [], None, {"username": "alice"}, {"username": 1, "password": PASSWORD}),
        {"username": "a" * 257, "password": PASSWORD},
        {"username": "alice", "password": PASSWORD * 200},
        {"username": ["alice"], "password": {"$ne": 1}},
    ],
)
async def test_what_is_no_login_is_refused_without_repeating_it(tmp_path: Path, body: Any) -> None:
    async with users_gateway(tmp_path) as gateway:
        response = await gateway.client().post("/auth/login", json=body)
        assert response.status_code == 422
        assert PASSWORD not in response.text


async def test_forms_of_other_sites_cannot_log_anybody_in(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        await gateway.add("alice", password=PASSWORD)
        fields = {"username": "alice", "password": PASSWORD}
        client = gateway.client()
        assert (await client.post("/auth/login", data=fields)).status_code == 422
        text = '{"username": "alice", "password": "correct horse battery"}'
        plain = await client.post("/auth/login", content=text, headers={"content-type": "text/plain"})
        assert plain.status_code == 422
        assert "set-cookie" not in plain.headers


async def test_without_users_nobody_logs_in(tmp_path: Path) -> None:
    from_nowhere = users_app(tmp_path, auth={"mode": "none"})
    async with serving_users(from_nowhere) as gateway:
        assert (await _log_in(gateway.client())).status_code == 404
        assert (await gateway.client().get("/auth/me")).json()["username"] == "local"


async def test_secrets_appear_in_no_log_and_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers = []
    async with users_gateway(tmp_path) as gateway:
        client = await _logged_in(gateway)
        token = await gateway.add("bob")
        bob = gateway.client(token)
        for path in ("/auth/me", "/nowhere", "/threads/no-uuid", "/health/ready"):
            answers += [await client.get(path), await bob.get(path), await client.post(path, content=b"{")]
        wrong = "hunter2-hunter2"
        answers += [await _log_in(client, "bob", wrong), await _log_in(client, wrong, wrong)]
        secrets = [PASSWORD, wrong, token, client.cookies["deerflow_session"], client.cookies["csrf_token"]]
    stored = (tmp_path / "deerflow.db").read_bytes()
    for secret in secrets:
        assert secret not in caplog.text
        assert all(secret not in answer.text for answer in answers)
        assert secret.encode() not in stored
