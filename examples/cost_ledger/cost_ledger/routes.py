"""Costs over HTTP: one's own budget for everyone, everything for administrators."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from deerflow_extension_api import require_admin, resolve_principal
from fastapi import APIRouter, Depends, HTTPException, Query, Request

from cost_ledger.costs import NANOS, shown
from cost_ledger.ledger import Ledger, today
from cost_ledger.options import Options
from cost_ledger.table import CostTable


def build_router(options: Options) -> APIRouter:
    """`GET /costs/budget`, `/costs/runs/{run_id}` and `/costs/days`."""
    router = APIRouter(prefix="/costs", tags=["cost ledger"])

    @router.get("/budget")
    async def read_budget(request: Request, ledger: Annotated[Ledger, Depends(_ledger)]) -> dict[str, Any]:
        """What the caller has spent today, and what is left of a day's budget."""
        principal = resolve_principal(request)
        if principal is None:
            raise HTTPException(401, "sign in to see your budget")
        if ledger.table is not None:
            ledger.learn(await ledger.table.spent_on(today()))
        nanos, limit = ledger.spent_by_user(principal.user_id), options.budgets.per_user_and_day
        left = None if limit is None else max(Decimal(0), limit - Decimal(nanos) / NANOS)
        return {
            "day": today(),
            "currency": options.currency,
            "spent": shown(nanos),
            "limit": None if limit is None else f"{limit:f}",
            "left": None if left is None else f"{left:f}",
        }

    @router.get("/runs/{run_id}", dependencies=[Depends(_administrator)])
    async def read_run(run_id: str, ledger: Annotated[Ledger, Depends(_ledger)]) -> dict[str, Any]:
        """What a run has cost, by model once its tasks have ended."""
        rows = await _table(ledger).of_run(run_id)
        nanos = ledger.spent_by_run(run_id) or sum(row["nanos"] for row in rows)
        return {"currency": options.currency, "cost": shown(nanos), "models": [_priced(row) for row in rows]}

    @router.get("/days", dependencies=[Depends(_administrator)])
    async def read_days(
        ledger: Annotated[Ledger, Depends(_ledger)], days: Annotated[int, Query(ge=1, le=366)] = 30
    ) -> dict[str, Any]:
        """What was spent in the last days, by day, user and model; newest first."""
        since = (datetime.now(UTC).date() - timedelta(days=days - 1)).isoformat()
        rows = await _table(ledger).by_day_and_user(since=since)
        return {"currency": options.currency, "items": [_priced(row) for row in rows]}

    return router


def _priced(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in row.items() if name != "nanos"}, "cost": shown(row["nanos"])}


def _administrator(request: Request) -> None:
    try:
        require_admin(request)
    except PermissionError as error:
        raise HTTPException(403, str(error)) from None


def _ledger(request: Request) -> Ledger:
    ledger = request.app.state.extensions.app_store.get(Ledger)
    if ledger is None:
        raise HTTPException(503, "the cost ledger is not open")
    return ledger


def _table(ledger: Ledger) -> CostTable:
    if ledger.table is None:
        raise HTTPException(503, "without a database nothing is kept; set database.backend")
    return ledger.table
