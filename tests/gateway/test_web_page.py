"""The web page: what is served, to whom, and that it was built from the sources beside it."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from support.gateways import gateway
from support.users import users_gateway

from deerflow.gateway import web_page

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
BUILT = ROOT / "deerflow" / "gateway" / "web"
# As `web/sources.ts` has them.
SOURCE_ROOTS = (
    "index.html", "package-lock.json", "package.json", "sources.ts", "src", "tsconfig.json", "vite.config.ts",
)  # fmt: skip


def _sources() -> Iterator[str]:
    for root in SOURCE_ROOTS:
        path = WEB / root
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        yield from (file.relative_to(WEB).as_posix() for file in files)


def test_page_is_built_from_its_sources() -> None:
    digest = hashlib.sha256()
    for path in sorted(_sources()):
        digest.update(path.encode() + b"\0" + (WEB / path).read_bytes() + b"\0")
    built = json.loads((BUILT / "build.json").read_text())
    assert built["sources_sha256"] == digest.hexdigest(), "web/ has changed: run `make web`"


def test_lock_file_names_no_place_to_download_from() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert packages and all("resolved" not in package for package in packages.values())
    declared = json.loads((WEB / "package.json").read_text())
    versions = [*declared["dependencies"].values(), *declared["devDependencies"].values()]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)


def test_page_loads_nothing_from_elsewhere_and_runs_nothing_of_its_own() -> None:
    page = (BUILT / "index.html").read_text()
    assert set(re.findall(r'(?:src|href)="([^"]+)"', page)) == {
        f"./assets/{path.name}" for path in (BUILT / "assets").iterdir()
    }
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert not re.search(r"<style|\son\w+=|\sstyle=", page)
    assert "url(" not in next((BUILT / "assets").glob("*.css")).read_text()


async def test_page_and_all_that_it_loads_are_served(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        page = await client.get("/ui/")
        assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
        assert 'data-auth="none"' in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert "frame-ancestors 'none'" in policy
        kinds = {
            "js": "text/javascript; charset=utf-8",
            "css": "text/css; charset=utf-8",
            "svg": "image/svg+xml",
        }
        for path in re.findall(r'(?:src|href)="\./([^"]+)"', page.text):
            response = await client.get(f"/ui/{path}")
            assert response.content == (BUILT / path).read_bytes()
            assert response.headers["content-type"] == kinds[path.rpartition(".")[2]]
            assert response.headers["x-content-type-options"] == "nosniff"
            assert "immutable" in response.headers["cache-control"]


async def test_page_is_asked_for_anew_and_sent_again_only_when_it_changed(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        page = await client.get("/ui/", headers={"accept-encoding": "identity"})
        assert page.headers["cache-control"] == "no-cache" and "content-encoding" not in page.headers
        again = await client.get("/ui/", headers={"if-none-match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert gzip.decompress(web_page.page_files(False)["/ui/"].compressed) == page.content


async def test_page_is_public_where_there_are_users_and_nothing_else_is(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as users:
        nobody = users.client()
        page = await nobody.get("/ui/")
        assert page.status_code == 200 and 'data-auth="users"' in page.text
        for path in re.findall(r'(?:src|href)="\./([^"]+)"', page.text):
            assert (await nobody.get(f"/ui/{path}")).status_code == 200
        closed = ("/", "/ui/x", "/ui//", "/ui/assets", "/ui/assets/x", "/ui/%2e%2e/threads", "/ui/build.json")
        for path in closed:
            assert (await nobody.get(path)).status_code == 401, path


async def test_no_file_but_those_of_the_page_is_served(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        for path in ("/ui/assets", "/ui/assets/x.js", "/ui/..%2findex.html", "/ui/build.json"):
            assert (await client.get(path)).status_code == 404, path
        assert (await client.post("/ui/")).status_code == 405
        assert not [p for p in (await client.get("/openapi.json")).json()["paths"] if p.startswith("/ui")]


async def test_addresses_without_the_slash_lead_to_the_page(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        for path in ("/", "/ui"):
            response = await client.get(path)
            assert (response.status_code, response.headers["location"]) == (307, "ui/")
