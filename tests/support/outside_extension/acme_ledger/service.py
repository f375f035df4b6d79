"""Opens the ledger with the host."""

from __future__ import annotations

from deerflow_extension_api import ExtensionRuntimeDeps, ExtensionService

from acme_ledger.ledger import Ledger
from acme_ledger.tables import upgrade


class LedgerService(ExtensionService):
    """Upgrades the tables, and writes a last entry when the host stops."""

    def __init__(self, currency: str) -> None:
        self._currency = currency
        self._ledger: Ledger | None = None

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        if deps.session_factory is None or deps.run_evidence_reader is None or deps.app_store is None:
            raise RuntimeError("the ledger needs a database")
        async with deps.session_factory() as session, session.begin():
            await (await session.connection()).run_sync(upgrade)
        self._ledger = Ledger(deps.session_factory, deps.run_evidence_reader, self._currency)
        deps.app_store.set(self._ledger)

    async def stop(self) -> None:
        if self._ledger is not None:
            await self._ledger.write(task_id="-", kind="host", outcome="stopped", model_calls=0)
