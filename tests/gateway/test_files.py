"""The files of a thread over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gateways import ASKING, UNKNOWN_ID, GatewayClient, gateway, running_server
from support.hosts import scripted_config
from support.users import users_gateway

from deerflow.gateway import uploads
from deerflow.gateway.app import create_app
from deerflow.gateway.body_limit import MAX_BODY_BYTES

SMALL = {"max_bytes": 1000}


def _workspace(client: GatewayClient, thread_id: str) -> Path:
    return client.host.config.workspace_path(thread_id)


def _left_aside(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".deerflow-part-")]


async def _in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_file_goes_in_and_comes_out_again(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        files = f"/threads/{await client.thread()}/files"
        empty = {"files": [], "is_complete": True, "max_bytes": 104_857_600}
        assert (await client.get(files)).json() == empty
        content = os.urandom(3_000_000)
        put = await client.put(f"{files}/a/b c.bin", content=content)
        assert put.status_code == 201 and put.json() == {"path": "a/b c.bin"}
        assert put.headers["location"] == f"{files}/a/b%20c.bin"
        got = await client.get(put.headers["location"])
        assert got.content == content and got.headers["content-length"] == "3000000"
        listed = (await client.get(files)).json()["files"]
        assert listed == [{"path": "a/b c.bin", "size_bytes": 3_000_000}]
        assert (await client.put(f"{files}/a/b c.bin", content=b"")).status_code == 200
        assert (await client.get(f"{files}/a/b c.bin")).content == b""
        assert (await client.delete(f"{files}/a/b c.bin")).status_code == 204
        assert (await client.get(files)).json() == empty
        for method in ("GET", "DELETE"):
            assert (await client.request(method, f"{files}/a/b c.bin")).status_code == 404


async def test_agents_and_people_share_the_files(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "ask")
        got = await client.get(f"/threads/{thread_id}/files/a.txt")
        assert (got.status_code, got.text) == (200, "x")


async def test_upload_is_larger_than_other_bodies_may_be(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        files = f"/threads/{await client.thread()}/files"
        response = await client.put(f"{files}/large", content=b"x" * (MAX_BODY_BYTES + 1))
        assert response.status_code == 201
        refused = await client.post("/threads/search", content=b"x" * (MAX_BODY_BYTES + 1))
        assert refused.status_code == 413


@pytest.mark.parametrize("is_announced", [True, False])
@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_too_large_a_file_leaves_the_old_one_and_nothing_aside(
    tmp_path: Path, method: str, is_announced: bool
) -> None:
    async with gateway(tmp_path, files=SMALL) as client:
        thread_id = await client.thread()
        path = f"/threads/{thread_id}/files/a.txt"
        await client.put(path, content=b"old" + b"x" * 997)
        body: Any = b"y" * 1001 if is_announced else _in_pieces(b"y" * 600, b"y" * 401)
        response = await client.request(method, path, content=body)
        assert response.status_code == 413
        assert "1000 bytes" in response.json()["detail"]
        assert (await client.get(path)).content.startswith(b"old")
        assert [path.name for path in _workspace(client, thread_id).iterdir()] == ["a.txt"]


async def test_too_large_a_file_is_refused_before_it_has_come(tmp_path: Path) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 500
            yield b"x" * 500

    async with gateway(tmp_path, files=SMALL) as client:
        path = f"/threads/{await client.thread()}/files/a.txt"
        assert (await client.put(path, content=endless())).status_code == 413
        assert sent <= 2000


async def test_broken_off_upload_leaves_the_old_file_and_nothing_aside(tmp_path: Path) -> None:
    config = scripted_config(tmp_path, shutdown={"drain_seconds": 0.01})
    async with running_server(create_app(config)) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            thread_id = (await client.post("/threads", json={})).json()["thread_id"]
            path = f"/threads/{thread_id}/files/a.txt"
            await client.put(path, content=b"old")
            address = server.url.removeprefix("http://").split(":")
            _, writer = await asyncio.open_connection(address[0], int(address[1]))
            head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n"
            writer.write(head.encode() + b"new" * 1_000_000)
            await writer.drain()
            folder = config.workspace_path(thread_id)
            async with asyncio.timeout(10):
                while not _left_aside(folder):
                    await asyncio.sleep(0.01)
                writer.close()
                while _left_aside(folder):
                    await asyncio.sleep(0.01)
            assert (await client.get(path)).text == "old"


async def test_upload_that_stalls_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "STALLED_SECONDS", 0.05)

    async def stalling() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        response = await client.put(f"/threads/{thread_id}/files/a.txt", content=stalling())
        assert response.status_code == 408
        assert list(_workspace(client, thread_id).iterdir()) == []


async def test_names_are_made_unique_however_many_arrive_at_once(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        files = f"/threads/{await client.thread()}/files"
        bodies = [f"file {number}".encode() for number in range(12)]
        added = await asyncio.gather(*(client.post(f"{files}/b/a.tar", content=body) for body in bodies))
        assert {response.status_code for response in added} == {201}
        paths = [response.json()["path"] for response in added]
        assert set(paths) == {"b/a.tar", *(f"b/a ({number}).tar" for number in range(2, 13))}
        for path, body in zip(paths, bodies, strict=True):
            assert (await client.get(f"{files}/{path}")).content == body


async def test_unique_name_of_a_long_name_is_not_too_long(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        files = f"/threads/{await client.thread()}/files"
        name = "ä" * 125 + ".txt"
        for _ in range(2):
            response = await client.post(f"{files}/{name}", content=b"x")
            assert response.status_code == 201, response.text
        assert response.json()["path"] == "ä" * 123 + " (2).txt"


@pytest.mark.parametrize(
    "path",
    [
        "%2e%2e/x", "a/%2e%2e/%2e%2e/x", "..%2fx", "%2e%2e%2f%2e%2e%2fdeerflow.db", "~/x", "a%00b", "a%0ab",
        "x" * 256, "/".join("x" * 65), "link/secret", "link", "folder", "pipe", "",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
async def test_nothing_leads_out_of_the_files(tmp_path: Path, method: str, path: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("swordfish")
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        workspace = _workspace(client, thread_id)
        (workspace / "folder").mkdir(parents=True)
        (workspace / "link").symlink_to(outside)
        os.mkfifo(workspace / "pipe")
        before = sorted(tmp_path.rglob("*"))
        content = b"new" if method != "GET" else None
        response = await client.request(method, f"/threads/{thread_id}/files/{path}", content=content)
        assert response.status_code in (404, 422), response.text
        assert "swordfish" not in response.text and str(tmp_path) not in response.text
        assert sorted(tmp_path.rglob("*")) == before
        assert (outside / "secret").read_text() == "swordfish"


async def test_removing_takes_links_and_never_what_they_lead_to(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        workspace = _workspace(client, thread_id)
        (workspace / "folder").mkdir(parents=True)
        (workspace / "link").symlink_to(kept)
        assert (await client.delete(f"/threads/{thread_id}/files/link")).status_code == 204
        assert (await client.delete(f"/threads/{thread_id}/files/folder")).status_code == 422
        assert kept.read_text() == "kept" and (workspace / "folder").is_dir()


async def test_list_shows_files_alone(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        workspace = _workspace(client, thread_id)
        (workspace / "a" / "b").mkdir(parents=True)
        (workspace / "a" / "b" / "c.txt").write_text("c")
        (workspace / "loop").symlink_to(workspace)
        (workspace / "a" / ".deerflow-part-00").write_text("half")
        os.mkfifo(workspace / "pipe")
        listed = (await client.get(f"/threads/{thread_id}/files")).json()
        assert listed["files"] == [{"path": "a/b/c.txt", "size_bytes": 1}]


@pytest.mark.parametrize(
    ("name", "content_type", "kind"),
    [
        ("a.txt", "text/plain; charset=utf-8", "inline"),
        ("a.md", "text/plain; charset=utf-8", "inline"),
        ("a.json", "text/plain; charset=utf-8", "inline"),
        ("a.PNG", "image/png", "inline"),
        ("a.html", "application/octet-stream", "attachment"),
        ("a.xhtml", "application/octet-stream", "attachment"),
        ("a.svg", "application/octet-stream", "attachment"),
        ("a.js", "application/octet-stream", "attachment"),
        ("a.xml", "application/octet-stream", "attachment"),
        ("a.pdf", "application/octet-stream", "attachment"),
        ("a.png.html", "application/octet-stream", "attachment"),
        ("html", "application/octet-stream", "attachment"),
    ],
)
async def test_no_browser_runs_what_an_agent_wrote(
    tmp_path: Path, name: str, content_type: str, kind: str
) -> None:
    async with gateway(tmp_path) as client:
        files = f"/threads/{await client.thread()}/files"
        headers = {"content-type": "text/html"}
        await client.put(f"{files}/{name}", content=b"<script>alert(1)</script>", headers=headers)
        response = await client.get(f"{files}/{name}")
        assert response.headers["content-type"] == content_type
        assert response.headers["content-disposition"].split(";")[0] == kind
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in response.headers["content-security-policy"]


async def test_name_in_the_header_cannot_add_to_it(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        files = f"/threads/{await client.thread()}/files"
        put = await client.put(f"{files}/" + '%22;x=%22%20"ü.exe', content=b"x")
        header = (await client.get(put.headers["location"])).headers["content-disposition"]
        assert (
            header == "attachment; filename=\"__x__ __.exe\"; filename*=UTF-8''%22%3Bx%3D%22%20%22%C3%BC.exe"
        )


async def test_form_is_refused_and_not_stored_as_it_came(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        files = f"/threads/{await client.thread()}/files"
        response = await client.post(f"{files}/a.txt", files={"file": b"x"})
        assert response.status_code == 415
        assert (await client.get(files)).json()["files"] == []


@pytest.mark.parametrize("thread_id", [UNKNOWN_ID, "%2e%2e", "x" * 200, "ü"])
async def test_thread_that_is_not_there_has_no_files(tmp_path: Path, thread_id: str) -> None:
    async with gateway(tmp_path) as client:
        before = sorted(tmp_path.rglob("*"))
        for method, path in (("GET", ""), ("GET", "/a"), ("PUT", "/a"), ("POST", "/a"), ("DELETE", "/a")):
            response = await client.request(method, f"/threads/{thread_id}/files{path}")
            assert response.status_code in (404, 422), response.text
        assert sorted(tmp_path.rglob("*")) == before


async def test_files_of_another_user_are_not_there(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as users:
        alice, bob = await users.user("alice"), await users.user("bob")
        root = await users.admin("root")
        thread_id = await alice.thread()
        path = f"/threads/{thread_id}/files/a.txt"
        await alice.put(path, content=b"swordfish")
        for method in ("GET", "PUT", "POST", "DELETE"):
            response = await bob.request(method, path, content=b"mine")
            assert response.status_code == 404 and "swordfish" not in response.text
            assert (await users.client().request(method, path, content=b"x")).status_code == 401
        assert (await bob.get(f"/threads/{thread_id}/files")).status_code == 404
        assert (await root.get(path)).text == (await alice.get(path)).text == "swordfish"
        assert json.loads((await alice.get(f"/threads/{thread_id}/files")).text)["files"] == [
            {"path": "a.txt", "size_bytes": 9}
        ]


async def test_client_that_leaves_in_the_middle_of_a_download_leaves_no_file_open(tmp_path: Path) -> None:
    config = scripted_config(tmp_path, shutdown={"drain_seconds": 0.01})
    async with running_server(create_app(config)) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            thread_id = (await client.post("/threads", json={})).json()["thread_id"]
            path = f"/threads/{thread_id}/files/large"
            await client.put(path, content=b"x" * 50_000_000)
            async with client.stream("GET", path) as response:
                async for _ in response.aiter_bytes():
                    break
            async with asyncio.timeout(10):
                while _open_files(config.workspace_path(thread_id)):
                    await asyncio.sleep(0.01)


def _open_files(folder: Path) -> list[str]:
    opened = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile, as that of the list is
            opened.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in opened if path.startswith(str(folder))]
