"""The ledger over HTTP, for administrators."""

from __future__ import annotations

from typing import Any

from deerflow_extension_api import ExtensionData, require_admin, resolve_principal
from fastapi import APIRouter, HTTPException, Request

from acme_ledger.ledger import Ledger


def build_router() -> APIRouter:
    """`GET /acme/entries`."""
    router = APIRouter(prefix="/acme")

    @router.get("/entries")
    async def read_entries(request: Request) -> dict[str, Any]:
        require_admin(request)
        principal = resolve_principal(request)
        app_store: ExtensionData = request.app.state.extensions.app_store
        ledger = app_store.get(Ledger)
        if ledger is None:
            raise HTTPException(503, "the ledger is not open")
        page = await ledger.evidence.list_changed_runs(cursor=None, limit=100)
        return {
            "for": principal.user_id if principal else None,
            "entries": await ledger.read(),
            "observed": dict(ledger.observed),
            "statuses": [run.status for run in page.items],
        }

    return router
