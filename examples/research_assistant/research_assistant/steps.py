"""The Steps of the Jobs: a query, an aggregate, and a report in Markdown."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from axonx import BaseStep, provider
from axonx.components.job import ArtifactEvent, ProgressEvent
from research_assistant.table import CsvTable, Row, markdown


class TableStep(BaseStep):
    """A Step that asks the table `table:default`."""

    @property
    def table(self) -> CsvTable:
        """The component."""
        found: CsvTable = self.get_component("table")
        return found


@provider("query_table")
class QueryTable(TableStep):
    """Answers the rows that the arguments ask for."""

    async def execute(self) -> None:
        self.response.answer = self.table.query(**self.context)


@provider("aggregate_table")
class AggregateTable(TableStep):
    """Answers one number for each group."""

    async def execute(self) -> None:
        self.response.answer = self.table.aggregate(**self.context)


@provider("write_report")
class WriteReport(TableStep):
    """Publishes a Markdown file whose tables come from the data, never from what a model remembers of it."""

    async def execute(self) -> None:
        title, tables = self.context["title"], self.context["tables"]
        parts = [f"# {title}", self.context.get("introduction", "")]
        for done, asked in enumerate(tables, 1):
            parts += [f"## {asked['caption']}", markdown(self._rows(asked))]
            await self.emit(
                ProgressEvent(
                    name="report", completed=done, total=len(tables), unit="tables", state="running"
                )
            )
        path = f"reports/{_file_name(title)}.md"
        await asyncio.to_thread(self._write, path, "\n\n".join(filter(None, parts)) + "\n")
        await self.emit(ArtifactEvent(path=path, media_type="text/markdown"))
        self.response.answer = f"The report has {len(tables)} tables."

    def _rows(self, asked: dict[str, Any]) -> list[Row]:
        arguments = {name: value for name, value in asked.items() if name != "caption"}
        return self.table.aggregate(**arguments) if "function" in asked else self.table.query(**arguments)

    def _write(self, path: str, text: str) -> None:
        file = self.workspace_file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "report"
