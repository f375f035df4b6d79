"""Who may use a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from support.axonx_service import served

from axonx import Application
from axonx.errors import ConfigurationError

JOBS: dict[str, Any] = {
    "public": {"steps": [{"backend": "demo_step"}], "requires_auth": False},
    "private": {"steps": [{"backend": "demo_step"}]},
    "hidden": {"steps": [], "enable_serve": False},
}
PATHS = [
    ("GET", "/health"),
    ("GET", "/jobs"),
    ("POST", "/jobs/public"),
    ("POST", "/jobs/public/events"),
    ("POST", "/jobs/nope"),
    ("POST", "/mcp"),
    ("GET", "/docs"),
    ("GET", "/redoc"),
    ("GET", "/openapi.json"),
    ("OPTIONS", "/jobs"),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(
    "authorization", [None, "Bearer", "Bearer wrong", "Basic s3cret", "s3cret", "Bearer s3cret x"]
)
async def test_with_a_token_nothing_is_open(tmp_path: Path, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    async with served(tmp_path, JOBS, token="s3cret") as service:
        for method, path in PATHS:
            response = await service.http.request(method, path, headers=headers)
            assert response.status_code == 401, path
            assert response.headers["www-authenticate"] == "Bearer"
            assert response.json() == {"detail": "Invalid bearer token"}


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_read_in_any_case(tmp_path: Path, scheme: str) -> None:
    async with served(tmp_path, JOBS, token="s3cret") as service:
        service.http.headers["authorization"] = f"{scheme} s3cret"
        assert (await service.http.get("/health")).status_code == 200
        assert (await service.http.get("/docs")).status_code == 200


async def test_two_authorization_headers_are_none(tmp_path: Path) -> None:
    async with served(tmp_path, JOBS, token="s3cret") as service:
        headers = [("authorization", "Bearer s3cret"), ("authorization", "Bearer x")]
        assert (await service.http.get("/health", headers=headers)).status_code == 401
        odd = [(b"authorization", b"Bearer \xff")]
        assert (await service.http.get("/health", headers=odd)).status_code == 401


async def test_a_token_opens_every_served_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path, JOBS, token="s3cret") as service:
        service.http.headers["authorization"] = "Bearer s3cret"
        items = (await service.http.get("/jobs")).json()["answer"]["items"]
        assert [item["name"] for item in items] == ["public", "private"]
        assert (await service.call("private")).json()["success"]
    assert "s3cret" not in caplog.text


async def test_without_a_token_only_public_jobs_are_served_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, JOBS) as service:
        items = (await service.http.get("/jobs")).json()["answer"]["items"]
        assert [item["name"] for item in items] == ["public"]
        assert (await service.call("private")).status_code == 404
        assert (await service.http.get("/docs")).status_code == 200
    assert "Not served, as the service has no token: private" in caplog.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "192.168.0.1", "localhost.evil.example"]
)
async def test_without_a_token_a_foreign_host_is_refused(tmp_path: Path, host: str) -> None:
    async with served(tmp_path, JOBS) as service:
        response = await service.http.get("/jobs", headers={"host": host})
        assert response.status_code == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "x"])
async def test_without_a_token_web_pages_from_elsewhere_are_refused(tmp_path: Path, origin: str) -> None:
    async with served(tmp_path, JOBS) as service:
        response = await service.http.post("/jobs/public", json={}, headers={"origin": origin})
        assert response.status_code == 403
        for local in ("http://localhost:3000", "http://127.0.0.1", "http://[::1]:5"):
            response = await service.http.post("/jobs/public", json={}, headers={"origin": local})
            assert response.status_code == 200


@pytest.mark.parametrize("token", [None, "s3cret"])
async def test_no_origin_is_allowed_to_read_answers(tmp_path: Path, token: str | None) -> None:
    async with served(tmp_path, JOBS, token=token) as service:
        headers = {"origin": "http://localhost:3000", "authorization": "Bearer s3cret"}
        response = await service.http.get("/jobs", headers=headers)
        assert response.status_code == 200
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.1", "example.com", "localhost.example.com"):
        with pytest.raises(ConfigurationError, match=r"service.token; set one, or listen on 127.0.0.1"):
            Application(workspace_dir=tmp_path, service={"backend": "http", "host": host})
        Application(workspace_dir=tmp_path, service={"backend": "http", "host": host, "token": "t"})
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST", "a.localhost"):
        Application(workspace_dir=tmp_path, service={"backend": "http", "host": host})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token": ""}, "token must be a text that is not empty"),
        ({"token": "two words"}, "token may hold printable ASCII"),
        ({"token": "ä"}, "token may hold printable ASCII"),
        ({"token": "s3cret\n"}, "token may hold printable ASCII"),
        ({"token": 5}, "service.token: Input should be a valid string"),
        ({"port": 65536}, "service.port"),
        ({"port": True}, "service.port"),
        ({"port": "80"}, "service.port"),
        ({"host": ""}, "service.host"),
        ({"shutdown_timeout": -1}, "service.shutdown_timeout"),
        ({"shutdown_timeout": float("nan")}, "service.shutdown_timeout"),
        ({"cleanup_timeout": True}, "service.cleanup_timeout"),
        ({"keep_alive_seconds": 0}, "service.keep_alive_seconds"),
        ({"max_body_bytes": 0}, "service.max_body_bytes"),
        ({"mcp": "yes"}, "service.mcp"),
        ({"prot": 80}, "Did you mean 'port'"),
    ],
)
def test_wrong_options_are_refused_by_name_and_without_the_token(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        Application(workspace_dir=tmp_path, service={"backend": "http", **options})
    assert "s3cret" not in str(caught.value)


async def test_the_token_is_not_shown(tmp_path: Path) -> None:
    async with served(tmp_path, JOBS, token="s3cret") as service:
        assert "s3cret" not in repr(service.app.context.service)
        assert "s3cret" not in repr(vars(service.app.context.service)["_options"])
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            response = await http.get(
                f"{service.address}/openapi.json", headers={"authorization": "bearer s3cret"}
            )
            assert "s3cret" not in response.text
