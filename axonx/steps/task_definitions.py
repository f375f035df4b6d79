"""Steps that say which Tasks can be started, and with what."""

from __future__ import annotations

import asyncio

from axonx.components.registry import provider
from axonx.errors import NoApplicationError
from axonx.steps.base import BaseStep
from axonx.task.catalogue import TaskCatalogue


class TaskCatalogueStep(BaseStep):
    """A Step that asks the application's catalogue of Tasks."""

    @property
    def catalogue(self) -> TaskCatalogue:
        """Raises NoApplicationError outside of an application."""
        if self.app_context is None:
            raise NoApplicationError("The Task catalogue requires an application context")
        return TaskCatalogue(self.app_context.registry)


@provider("list_installed_task_definitions")
class ListInstalledTaskDefinitionsStep(TaskCatalogueStep):
    """Answers all Tasks by name, with their JSON Schemas unless `include_schemas` is false."""

    async def execute(self) -> None:
        include_schemas = self.context.get("include_schemas", True)
        # Schemas of many models take a while, and a built-in Task is imported here.
        found = await asyncio.to_thread(self.catalogue.usable, include_schemas=include_schemas)
        self.response.answer = [each.model_dump(mode="json") for each in found]


@provider("get_task_definition")
class GetTaskDefinitionStep(TaskCatalogueStep):
    """Answers the registered Task `task` with the JSON Schemas of its input and output."""

    async def execute(self) -> None:
        definition = await asyncio.to_thread(self.catalogue.definition, self.context["task"])
        self.response.answer = definition.model_dump(mode="json")
