"""The web page at `/ui/`: built from `web/`, kept in memory, served to everyone, for it holds the login form.

Its files stand at their exact paths, so that no other route is hidden behind them.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

PAGE_PATH: Final = "/ui/"
ASSETS_PATH: Final = "/ui/assets/"
_BARE_PATH: Final = "/ui"

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "vary": "accept-encoding",
}
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOREVER: Final = "public, max-age=31536000, immutable"
# Where the built page says how its server tells callers apart.
_AUTH_MARK: Final = b'data-auth="none"'


@dataclass(frozen=True)
class WebFile:
    """One file of the page; `etag` is None where the name changes with the content."""

    content: bytes
    compressed: bytes
    media_type: str
    etag: str | None = None

    def answer(self, request: Request) -> Response:
        """The file, compressed where the client takes that."""
        caching = {"cache-control": _FOREVER} if self.etag is None else {"cache-control": "no-cache"}
        headers = {**_HEADERS, **caching}
        if self.etag is not None:
            headers["etag"] = self.etag
            if request.headers.get("if-none-match") == self.etag:
                return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.content, headers=headers, media_type=self.media_type)
        headers["content-encoding"] = "gzip"
        return Response(self.compressed, headers=headers, media_type=self.media_type)


def page_router(*, with_users: bool) -> APIRouter:
    """The routes of the page and what it loads; without users `/` leads there, too."""
    router = APIRouter(include_in_schema=False)
    for path, file in page_files(with_users).items():
        router.add_route(path, _serving(file), methods=["GET"], include_in_schema=False)
    router.add_route(_BARE_PATH, _to_page, methods=["GET"], include_in_schema=False)
    if not with_users:
        router.add_route("/", _to_page, methods=["GET"], include_in_schema=False)
    return router


def public_page_paths() -> frozenset[str]:
    """The paths of the page, which are nobody's secret."""
    return frozenset({_BARE_PATH, *page_files(True)})


@cache
def page_files(with_users: bool) -> dict[str, WebFile]:
    """What stands at which path."""
    folder = files("deerflow.gateway") / "web"
    page = (folder / "index.html").read_bytes()
    if with_users:
        page = page.replace(_AUTH_MARK, b'data-auth="users"')
    etag = f'"{hashlib.sha256(page).hexdigest()[:32]}"'
    found = {PAGE_PATH: _file(page, "index.html", etag)}
    for asset in (folder / "assets").iterdir():
        found[ASSETS_PATH + asset.name] = _file(asset.read_bytes(), asset.name, None)
    return found


def _file(content: bytes, name: str, etag: str | None) -> WebFile:
    return WebFile(content, gzip.compress(content, 6, mtime=0), _TYPES[name.rpartition(".")[2]], etag)


def _serving(file: WebFile) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        return file.answer(request)

    return serve


async def _to_page(request: Request) -> Response:
    # Relative, and so right behind a proxy that adds a prefix.
    return RedirectResponse("ui/", 307)
