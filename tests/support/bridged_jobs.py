"""Steps of Jobs that hosts under test offer as tools, named as `support.bridged_jobs:Step`."""

from __future__ import annotations

import asyncio

from axonx import BaseStep, provider
from axonx.components.job import ArtifactEvent, ProgressEvent

PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}


@provider("shout")
class Shout(BaseStep):
    """Answers in capitals, after a ProgressEvent and a file."""

    async def execute(self) -> None:
        text = self.context.get("text", "")
        await self.emit(ProgressEvent(name="shout", percentage=50, state="running"))
        self.workspace_file("shout.txt").write_text(text.upper())
        await self.emit(ArtifactEvent(path="shout.txt"))
        self.response.answer = text.upper()


@provider("repeat")
class Repeat(BaseStep):
    """Answers with a text a hundred thousand times as long."""

    async def execute(self) -> None:
        self.response.answer = self.context.get("text", "") * 100_000


@provider("hold")
class Hold(BaseStep):
    """Waits, and says in a file of the workspace how it stands."""

    async def execute(self) -> None:
        file = self.workspace_file("held.txt")
        file.write_text("under way")
        try:
            await asyncio.sleep(60)
        finally:
            file.write_text("cleaned up")


PROVIDERS = [f"{__name__}:{name}" for name in ("Shout", "Repeat", "Hold")]


def job(step: str) -> dict[str, object]:
    """The configuration of a Job with one Step."""
    return {"description": f"{step}.", "parameters": PARAMETERS, "steps": [{"backend": step}]}
