"""The trail over HTTP, for administrators."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

from deerflow_extension_api import require_admin
from fastapi import APIRouter, Depends, HTTPException, Query, Request

from audit_trail.store import ChainStore


def build_router() -> APIRouter:
    """`GET /audit/entries` and `GET /audit/verification`."""
    router = APIRouter(prefix="/audit", tags=["audit trail"], dependencies=[Depends(_administrator)])

    @router.get("/entries")
    async def read_entries(
        store: Annotated[ChainStore, Depends(_store)],
        after: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        run_id: str | None = None,
    ) -> dict[str, Any]:
        """Entries after a place, oldest first; `next_after` is where the next page begins."""
        entries = await store.read(after=after, limit=limit, run_id=run_id)
        items = [{**asdict(entry), "detail": json.loads(entry.detail)} for entry in entries]
        return {"items": items, "next_after": entries[-1].seq if entries else after}

    @router.get("/verification")
    async def verify(
        store: Annotated[ChainStore, Depends(_store)],
        seq: Annotated[int, Query(ge=0)] = 0,
        digest: str | None = None,
    ) -> dict[str, Any]:
        """Walk along the whole chain. `seq` and `digest`: a place that was noted elsewhere, as in a log."""
        found = await store.verify()
        result = {"intact": found.broken_at is None, **asdict(found)}
        return result if digest is None else {**result, "noted": await store.holds(seq, digest)}

    return router


def _administrator(request: Request) -> None:
    try:
        require_admin(request)
    except PermissionError as error:
        raise HTTPException(403, str(error)) from None


def _store(request: Request) -> ChainStore:
    store = request.app.state.extensions.app_store.get(ChainStore)
    if store is None:
        raise HTTPException(503, "the audit trail is not open")
    return store
