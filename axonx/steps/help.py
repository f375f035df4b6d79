"""Which Jobs there are."""

from __future__ import annotations

from axonx.components.job.catalog import JobCatalog
from axonx.components.registry import provider
from axonx.errors import NoApplicationError
from axonx.steps.base import BaseStep


@provider("help_step")
class HelpStep(BaseStep):
    """Answers the JobCatalog of the Jobs with `enable_serve`, as JSON."""

    async def execute(self) -> None:
        if self.app_context is None:
            raise NoApplicationError("help_step lists the Jobs of an application")
        served = [job for job in self.app_context.jobs.values() if job.enable_serve]
        self.response.answer = JobCatalog.of(served).model_dump(mode="json")
