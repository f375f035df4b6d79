"""The route with the totals."""

from __future__ import annotations

from deerflow_extension_api import require_admin
from fastapi import APIRouter, HTTPException, Request

from tool_call_counter.counts import Totals


def build_router() -> APIRouter:
    """`GET /tool-calls`, for administrators."""
    router = APIRouter(tags=["tool call counter"])

    @router.get("/tool-calls")
    def tool_calls(request: Request) -> dict[str, dict[str, int]]:
        try:
            require_admin(request)
        except PermissionError as error:
            raise HTTPException(403, str(error)) from None
        totals = request.app.state.extensions.app_store.get(Totals)
        return (totals or Totals()).as_dict()

    return router
