"""Logging in and out, and who one is."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, cast

from deerflow_extension_api import resolve_principal
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from deerflow.gateway.answers import Me, Session, answers
from deerflow.gateway.auth.authentication import unauthenticated
from deerflow.gateway.auth.credentials import MAX_PASSWORD_CHARACTERS, csrf_token, digest, new_secret
from deerflow.gateway.auth.login_throttle import LoginThrottle
from deerflow.gateway.auth.passwords import Passwords
from deerflow.gateway.auth.session_cookies import drop_session_cookies, session_secret, set_session_cookies
from deerflow.gateway.current import accounts_of, host_of
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.responses import JsonResponse
from deerflow.persistence.accounts import NewSession
from deerflow.runs.record import utc_now

router = APIRouter(route_class=GatewayRoute, tags=["auth"], prefix="/auth")
login_router = APIRouter(route_class=GatewayRoute, tags=["auth"], prefix="/auth")

WRONG = "wrong username or password"


@dataclass(frozen=True)
class Logins:
    """What logging in needs beside the database."""

    passwords: Passwords = field(default_factory=Passwords)
    throttle: LoginThrottle = field(default_factory=LoginThrottle)


class LoginBody(BaseModel):
    """Who wants to log in."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    username: Annotated[str, Field(max_length=256)]
    password: Annotated[str, Field(max_length=MAX_PASSWORD_CHARACTERS)]


@router.get("/me", responses=answers(Me))
async def me(request: Request) -> Response:
    """Who is calling."""
    principal = resolve_principal(request)
    if principal is None:
        return unauthenticated()
    return JsonResponse(
        {"username": principal.user_id, "is_admin": principal.is_admin, "roles": principal.roles}
    )


@login_router.post("/login", responses=answers(Session, 401, 429))
async def login(request: Request, body: LoginBody) -> Response:
    """Open a session; it comes as a cookie, with a second one whose value state-changing requests repeat."""
    logins = cast(Logins, request.app.state.logins)
    name, peer = body.username.strip().lower(), request.client.host if request.client else None
    wait_seconds = logins.throttle.enter(name, peer)
    if wait_seconds:
        raise HTTPException(429, "too many tries to log in", {"Retry-After": str(wait_seconds)})
    proven = await _proven_hash(request, name, body.password)
    lasting_seconds = int(host_of(request).config.auth.session_seconds)
    session = new_secret()
    if proven is None or not await accounts_of(request).open_session(
        NewSession(digest(session), name, proven, utc_now() + timedelta(seconds=lasting_seconds))
    ):
        return unauthenticated(WRONG)
    logins.throttle.forgive(name, peer)
    response = JsonResponse({"username": name, "csrf_token": csrf_token(session)})
    set_session_cookies(response, request, session, lasting_seconds=lasting_seconds)
    return response


@login_router.post("/logout", status_code=204)
async def logout(request: Request) -> Response:
    """End the session; it is over for whoever else has its cookie, too."""
    secret = session_secret(request)
    if secret is not None:
        await accounts_of(request).close_session(digest(secret))
    response = Response(status_code=204)
    drop_session_cookies(response, request)
    return response


async def _proven_hash(request: Request, name: str, password: str) -> str | None:
    """The digest that the password was held against and that fits; None where it does not."""
    logins, accounts = cast(Logins, request.app.state.logins), accounts_of(request)
    kept = await accounts.password_hash(name)
    compared = await logins.passwords.compare(password, kept)
    if kept is None or not compared.matches:
        return None
    if compared.renewed is not None:
        await accounts.renew_password_hash(name, kept, compared.renewed)
        return compared.renewed
    return kept
