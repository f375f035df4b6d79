"""The open ledger of one process: prices, what is being spent, and whom to warn."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from threading import Lock
from typing import Any, Final

from cost_ledger.costs import NANOS, TaskCost, Usage, cost_nanos, shown
from cost_ledger.options import Options
from cost_ledger.table import CostEntry, CostTable

logger = logging.getLogger(__name__)

MAX_PENDING: Final = 10_000
"""Entries that wait for a database that does not answer; the oldest are dropped beyond."""


@dataclass(frozen=True)
class BudgetWarning:
    """A budget that is nearly or wholly spent. `budget` is `per_run` or `per_user_and_day`."""

    budget: str
    subject: str
    nanos: int
    limit: Decimal
    currency: str

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.nanos >= self.limit * NANOS

    def event(self) -> dict[str, Any]:
        """What the run's stream is told."""
        return {
            "type": "cost_warning",
            "budget": self.budget,
            "spent": shown(self.nanos),
            "limit": f"{self.limit:f}",
            "currency": self.currency,
            "exceeded": self.is_spent,
        }


class Ledger:
    """Counts from any thread; writes on the loop of the service. `table` is None without a database."""

    def __init__(self, options: Options, table: CostTable | None) -> None:
        self.options = options
        self.table = table
        self._lock = Lock()
        self._writing = asyncio.Lock()
        self._by_run: Counter[str] = Counter()
        self._by_user: Counter[tuple[str, str]] = Counter()
        self._warned: set[tuple[str, str, bool]] = set()
        self._unpriced: set[str] = set()
        self._pending: deque[CostEntry] = deque(maxlen=MAX_PENDING)

    def learn(self, spent: Mapping[str, int]) -> None:
        """Take what is stored of today into account, which other processes may have written."""
        with self._lock:
            for user_id, nanos in spent.items():
                self._by_user[today(), user_id] = max(nanos, self._by_user[today(), user_id])

    def assign(self, task: TaskCost, user_id: str) -> None:
        """Charge a task to a user, with what it has cost before that was known."""
        with self._lock:
            if task.user_id != user_id:
                nanos = sum(total.nanos for total in task.models.values())
                self._by_user[today(), task.user_id] -= nanos
                self._by_user[today(), user_id] += nanos
                task.user_id = user_id

    def count(self, task: TaskCost, models: tuple[str, str], usage_metadata: Any) -> list[BudgetWarning]:
        """Count one call; return what is now to be warned of. `models`: configured name, provider's name."""
        name = next((model for model in models if model in self.options.prices), models[0])
        usage = Usage.of(usage_metadata)
        price = self.options.prices.get(name)
        if price is None:
            self._say_unpriced(name)
        nanos = cost_nanos(usage, price)
        task.add(name, usage, nanos)
        with self._lock:
            self._by_run[task.run_id] += nanos
            self._by_user[today(), task.user_id] += nanos
            return self._due_warnings(task)

    def spent_by_run(self, run_id: str) -> int:
        """What a run that goes on has cost so far, in billionths."""
        with self._lock:
            return self._by_run[run_id]

    def spent_by_user(self, user_id: str) -> int:
        """What a user has spent today, as this process knows it."""
        with self._lock:
            return self._by_user[today(), user_id]

    async def close_task(self, task: TaskCost) -> None:
        """Write what a task has cost. Where the database is away, the entries wait for the next one."""
        self._pending += [
            CostEntry(
                day=today(),
                run_id=task.run_id,
                task_id=task.task_id,
                user_id=task.user_id,
                model=model,
                calls=total.calls,
                input_tokens=total.input_tokens,
                output_tokens=total.output_tokens,
                nanos=total.nanos,
                currency=self.options.currency,
            )
            for model, total in task.models.items()
        ]
        await self.flush()

    def close_run(self, run_id: str) -> None:
        """Forget a run that has ended."""
        with self._lock:
            self._by_run.pop(run_id, None)
            self._warned -= {warned for warned in self._warned if warned[1] == run_id}
            old = [key for key in self._by_user if key[0] != today()]
            for key in old:
                del self._by_user[key]

    async def flush(self) -> None:
        """Write what waits."""
        async with self._writing:
            rows = list(self._pending)
            if self.table is not None and rows:
                await self.table.write(rows)
                while rows and self._pending and self._pending[0] is rows.pop(0):
                    self._pending.popleft()

    def _due_warnings(self, task: TaskCost) -> list[BudgetWarning]:
        budgets, currency = self.options.budgets, self.options.currency
        lines = [
            ("per_run", task.run_id, self._by_run[task.run_id], budgets.per_run),
            (
                "per_user_and_day",
                task.user_id,
                self._by_user[today(), task.user_id],
                budgets.per_user_and_day,
            ),
        ]
        due = []
        for budget, subject, nanos, limit in lines:
            if limit is None or nanos < limit * NANOS * self.options.warn_at:
                continue
            warning = BudgetWarning(budget, subject, nanos, limit, currency)
            said = (budget, subject if budget == "per_run" else f"{today()} {subject}", warning.is_spent)
            if said not in self._warned:
                self._warned.add(said)
                due.append(warning)
        return due

    def _say_unpriced(self, model: str) -> None:
        with self._lock:
            first = model not in self._unpriced
            self._unpriced.add(model)
        if first:
            logger.warning("model %r has no price: its calls are counted at 0; give prices.%s", model, model)


def today() -> str:
    """The day that is being spent on, in UTC."""
    return datetime.now(UTC).date().isoformat()
