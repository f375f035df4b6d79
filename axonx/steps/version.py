"""Which AxonX is running."""

from __future__ import annotations

from axonx import __version__
from axonx.components.registry import provider
from axonx.steps.base import BaseStep


@provider("version_step")
class VersionStep(BaseStep):
    """Answers the version of AxonX."""

    async def execute(self) -> None:
        self.response.answer = __version__
