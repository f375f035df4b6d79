"""Who is calling, and that doubt means refusal."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from deerflow_extension_api import (
    EXTENSION_PRINCIPAL_RESOLVER_KEY,
    ExtensionPrincipal,
    require_admin,
    resolve_principal,
)
from fastapi import FastAPI, HTTPException, Request

ADMIN = ExtensionPrincipal("ada", is_admin=True, roles=("admin",))
USER = ExtensionPrincipal("bob")


def request_with(resolver: Any) -> Any:
    return SimpleNamespace(
        app=SimpleNamespace(state=SimpleNamespace(**{EXTENSION_PRINCIPAL_RESOLVER_KEY: resolver}))
    )


def fail(request: Any) -> Any:
    raise RuntimeError("database is gone")


async def answer_later(request: Any) -> ExtensionPrincipal:
    return ADMIN


class HostileRequest:
    @property
    def app(self) -> Any:
        raise RuntimeError("no app")


UNTOLD = {
    "no request": None,
    "no app": object(),
    "no state": SimpleNamespace(app=object()),
    "no resolver": SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace())),
    "hostile": HostileRequest(),
    "resolver is None": request_with(None),
    "resolver is no function": request_with("ada"),
    "resolver takes nothing": request_with(lambda: ADMIN),
    "resolver raises": request_with(fail),
    "resolver is async": request_with(answer_later),
    "anonymous": request_with(lambda request: None),
    "True": request_with(lambda request: True),
    "a mapping": request_with(lambda request: {"user_id": "ada", "is_admin": True}),
    "a look-alike": request_with(lambda request: SimpleNamespace(user_id="ada", is_admin=True)),
    "the class": request_with(lambda request: ExtensionPrincipal),
}


@pytest.mark.parametrize("case", UNTOLD)
def test_where_it_cannot_be_told_who_calls_nobody_does(case: str) -> None:
    assert resolve_principal(UNTOLD[case]) is None


@pytest.mark.parametrize("case", UNTOLD)
def test_where_it_cannot_be_told_who_calls_the_administrator_s_door_is_shut(case: str) -> None:
    with pytest.raises(PermissionError, match=r"^this endpoint requires an administrator account$"):
        require_admin(UNTOLD[case])


@pytest.mark.parametrize("is_admin", [False, None, 0, 1, "yes", "True", [1], object()])
def test_only_true_makes_an_administrator(is_admin: Any) -> None:
    request = request_with(lambda request: ExtensionPrincipal("eve", is_admin=is_admin, roles=("admin",)))
    assert resolve_principal(request).user_id == "eve"
    with pytest.raises(PermissionError):
        require_admin(request)


def test_the_host_itself_is_no_administrator_by_that_alone() -> None:
    with pytest.raises(PermissionError):
        require_admin(request_with(lambda request: ExtensionPrincipal("host", is_internal=True)))


def test_an_administrator_passes_and_is_named() -> None:
    assert require_admin(request_with(lambda request: ADMIN)) is ADMIN


def test_the_resolver_receives_the_request() -> None:
    seen: list[Any] = []
    request = request_with(lambda request: seen.append(request) or USER)
    assert resolve_principal(request) is USER
    assert seen == [request]


def test_a_failing_resolver_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "deerflow_extension_api"):
        resolve_principal(request_with(fail))
    assert "database is gone" in caplog.text


def test_a_missing_resolver_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    resolve_principal(UNTOLD["no resolver"])
    assert caplog.text == ""


async def test_a_route_tells_administrators_from_others() -> None:
    app = FastAPI()
    accounts = {"a": ADMIN, "b": USER}

    @app.get("/secret")
    def secret(request: Request) -> str:
        try:
            return require_admin(request).user_id
        except PermissionError as error:
            raise HTTPException(403, str(error)) from error

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        before = await client.get("/secret", headers={"token": "a"})
        app.state.deerflow_extension_principal_resolver = lambda request: accounts.get(
            request.headers.get("token")
        )
        answers = [await client.get("/secret", headers={"token": token}) for token in ("a", "b", "c")]
    assert before.status_code == 403
    assert [answer.status_code for answer in answers] == [200, 403, 403]
    assert answers[0].json() == "ada"
