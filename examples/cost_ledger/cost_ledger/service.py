"""Opens the ledger with the host."""

from __future__ import annotations

import logging

from deerflow_extension_api import ExtensionData, ExtensionRuntimeDeps, ExtensionService

from cost_ledger.ledger import Ledger, today
from cost_ledger.options import Options
from cost_ledger.table import CostTable

logger = logging.getLogger(__name__)


class LedgerService(ExtensionService):
    """Makes the table, and the ledger in the app store. Without a database it counts, and keeps nothing."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._app_store: ExtensionData | None = None

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        if deps.app_store is None:
            raise RuntimeError("the cost ledger needs the host's app store")
        table = None
        if deps.session_factory is not None:
            table = CostTable(deps.session_factory, self._options.currency)
            await table.create()
        ledger = Ledger(self._options, table)
        if table is not None:
            ledger.learn(await table.spent_on(today()))
        self._app_store = deps.app_store
        deps.app_store.set(ledger)

    async def stop(self) -> None:
        ledger = None if self._app_store is None else self._app_store.remove(Ledger)
        if ledger is not None:
            await ledger.flush()
