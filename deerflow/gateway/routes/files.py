"""The files of a thread: what its agents read and write, for people to put in and take out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import BinaryIO, Final
from urllib.parse import quote

from fastapi import APIRouter
from starlette._utils import get_route_path  # the router's own reading: a second one could differ from it
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Scope

from deerflow.agents.workspace import (
    FolderPathError,
    IncomingFile,
    MissingPathError,
    Workspace,
    WorkspaceError,
)
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.paths import MAX_DEPTH, Parts, parts_of, shown_path
from deerflow.agents.workspace.worker import in_worker
from deerflow.errors import InvalidRequestError, NotFoundError
from deerflow.gateway.answers import ANY_BYTES, FILE, STORED, FileList, StoredFile, answers, failures
from deerflow.gateway.current import host_of, thread_of
from deerflow.gateway.downloads import FileDownload
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.parameters import ThreadId
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.uploads import on_disk, received

router = APIRouter(route_class=GatewayRoute, tags=["files"], prefix="/threads/{thread_id}/files")

MAX_LISTED = 10_000
_ADDED: Final = STORED | failures(400, 404, 408, 415)
_PUT: Final = answers(StoredFile) | _ADDED
_ONE_FILE: Final = compile_path("/threads/{thread_id}/files/{path:path}")[0]


def is_upload(scope: Scope) -> bool:
    """Whether a request comes to a route of this file that bounds its body itself."""
    return scope["method"] in ("PUT", "POST") and _ONE_FILE.match(get_route_path(scope)) is not None


@router.get("", responses=answers(FileList, 404))
async def list_files(request: Request, thread_id: ThreadId) -> Response:
    """The files in all folders, by name; `is_complete` is false where there are more than are listed."""
    workspace = await _workspace(request, thread_id)
    with _refusals():
        found = await in_worker(partial(_listed, workspace))
    max_bytes = host_of(request).config.files.max_bytes
    files = [{"path": path, "size_bytes": size_bytes} for path, size_bytes in found[:MAX_LISTED]]
    return JsonResponse({"files": files, "is_complete": len(found) <= MAX_LISTED, "max_bytes": max_bytes})


@router.get("/{path:path}", response_class=Response, responses=FILE | failures(404))
async def download(request: Request, thread_id: ThreadId, path: str) -> Response:
    """The content of a file."""
    workspace = await _workspace(request, thread_id)
    opened: list[tuple[BinaryIO, int]] = []
    with _refusals():
        try:
            await on_disk(lambda: opened.append(_opened(workspace, path)))
        except BaseException:
            for file, _ in opened:  # the request was cancelled when the file had been opened
                file.close()
            raise
    return FileDownload(*opened[0], parts_of(path)[-1])


@router.put("/{path:path}", responses=_PUT, openapi_extra={"requestBody": {"content": ANY_BYTES}})
async def put(request: Request, thread_id: ThreadId, path: str) -> Response:
    """Put the body at the path: 201, or 200 where it took another file's place."""
    workspace = await _workspace(request, thread_id)
    max_bytes = host_of(request).config.files.max_bytes
    _refuse_forms(request)
    with _refusals():
        async with received(request, workspace, path, max_bytes) as incoming:
            replaced = await in_worker(partial(_replace, workspace, path, incoming))
    return _stored(thread_id, parts_of(path), 200 if replaced else 201)


@router.post(
    "/{path:path}", status_code=201, responses=_ADDED, openapi_extra={"requestBody": {"content": ANY_BYTES}}
)
async def add(request: Request, thread_id: ThreadId, path: str) -> Response:
    """Put the body at the path, or under a name beside it where that one is taken: nothing is replaced."""
    workspace = await _workspace(request, thread_id)
    max_bytes = host_of(request).config.files.max_bytes
    _refuse_forms(request)
    with _refusals():
        async with received(request, workspace, path, max_bytes) as incoming:
            name = await on_disk(incoming.add)
    return _stored(thread_id, (*parts_of(path)[:-1], name), 201)


@router.delete("/{path:path}", status_code=204, responses=failures(404))
async def delete(request: Request, thread_id: ThreadId, path: str) -> Response:
    """Remove a file."""
    workspace = await _workspace(request, thread_id)
    with _refusals():
        await in_worker(lambda allowance: workspace.remove(path, allowance))
    return Response(status_code=204)


async def _workspace(request: Request, thread_id: str) -> Workspace:
    thread = await thread_of(request, thread_id)
    return Workspace(host_of(request).config.workspace_path(thread.thread_id))


@contextmanager
def _refusals() -> Iterator[None]:
    """Say in the terms of HTTP what the workspace refuses in those of tools."""
    try:
        yield
    except FolderPathError as error:
        raise InvalidRequestError(f"path: {str(error).partition(':')[0]}, and a file is needed") from None
    except MissingPathError as error:
        raise NotFoundError(str(error).partition(":")[0]) from None
    except WorkspaceError as error:
        raise InvalidRequestError(f"path: {error}") from None


def _refuse_forms(request: Request) -> None:
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        raise HTTPException(415, "send the file itself as the body, one request per file, not a form")


def _stored(thread_id: str, parts: Parts, status: int) -> Response:
    path = "/".join(parts)
    location = f"/threads/{quote(thread_id)}/files/{quote(path)}"
    return JsonResponse({"path": path}, status, headers={"Location": location})


def _listed(workspace: Workspace, allowance: Allowance) -> list[tuple[str, int]]:
    return sorted(islice(_files_below(workspace, (), allowance), MAX_LISTED + 1))


def _files_below(workspace: Workspace, folder: Parts, allowance: Allowance) -> Iterator[tuple[str, int]]:
    for entry in sorted(workspace.entries(folder)):
        allowance.check()
        path = (*folder, entry.name)
        if entry.kind == "file":
            yield shown_path(path), entry.size_bytes
        elif entry.kind == "folder" and len(path) < MAX_DEPTH:
            with suppress(WorkspaceError):  # gone, or closed to this process
                yield from _files_below(workspace, path, allowance)


def _opened(workspace: Workspace, path: str) -> tuple[BinaryIO, int]:
    file = workspace.open_file(path)
    return file, os.fstat(file.fileno()).st_size


def _replace(workspace: Workspace, path: str, incoming: IncomingFile, allowance: Allowance) -> bool:
    with workspace.exclusive(path, allowance):
        return incoming.replace()
