"""The Tasks that one application knows: built-in ones, those of plugins, and its own."""

from __future__ import annotations

import logging
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, PydanticUserError

from axonx.components.registry import ProviderRegistry, Registration
from axonx.errors import AxonXError
from axonx.task.base import BaseTask, description_of
from axonx.task.errors import TaskDefinitionError, UnknownTaskError
from axonx.task.identity import TaskType, validate_registration_name

_logger = logging.getLogger(__name__)

#: `submit_task` takes the Task's name under this key, next to the Task's own input.
TASK_ARGUMENT = "task"

_CATEGORY = BaseTask.component_type


class TaskInfo(BaseModel):
    """One Task as a list shows it.

    `source` is `native` for those of AxonX, `plugin` for those of an installed plugin (named in
    `plugin`), `application` for those that were given to the Application itself.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    source: Literal["native", "plugin", "application"]
    plugin: str | None = None
    category: str | None = None
    task_type: TaskType
    description: str


class TaskDefinition(TaskInfo):
    """A Task with the JSON Schemas of its input and its output."""

    input_schema: dict[str, Any]
    output_schema: dict[str, Any]


class TaskCatalogue:
    """A view of the Tasks in one registry. Tasks that cannot be used are refused one by one, by name."""

    def __init__(self, registry: ProviderRegistry) -> None:
        self._registry = registry

    def names(self) -> tuple[str, ...]:
        """The registered names, sorted."""
        return self._registry.backends(_CATEGORY)

    def resolve(self, name: str) -> type[BaseTask]:
        """The class behind a name. Raises UnknownTaskError, TaskDefinitionError."""
        return self._checked(name)[1]

    def info(self, name: str) -> TaskInfo:
        """What a list shows of one Task. Raises UnknownTaskError, TaskDefinitionError."""
        registration, task_cls = self._checked(name)
        module = task_cls.__module__
        plugin = None if registration.owner == module else registration.owner
        native = module == "axonx" or module.startswith("axonx.")
        return TaskInfo(
            name=name,
            source="plugin" if plugin else "native" if native else "application",
            plugin=plugin,
            category=task_cls.category,
            task_type=task_cls.task_type,
            description=description_of(task_cls),
        )

    def definition(self, name: str) -> TaskDefinition:
        """One Task with its schemas. Raises UnknownTaskError, TaskDefinitionError."""
        info, task_cls = self.info(name), self.resolve(name)
        return TaskDefinition(
            **info.model_dump(),
            input_schema=task_cls.input_cls.model_json_schema(),
            output_schema=task_cls.output_cls.model_json_schema(mode="serialization"),
        )

    def usable(self, *, include_schemas: bool = True) -> list[TaskInfo]:
        """All Tasks by name. One that cannot be described is left out, with a warning that says why."""
        found: list[TaskInfo] = []
        for name in self.names():
            try:
                found.append(self.definition(name) if include_schemas else self.info(name))
            except (AxonXError, PydanticUserError) as error:
                _logger.warning("Task %r cannot be listed: %s", name, error)
        return found

    def _checked(self, name: str) -> tuple[Registration, type[BaseTask]]:
        registration = self._registry.find(_CATEGORY, name)
        if registration is None:
            known = ", ".join(self.names())
            raise UnknownTaskError(f"Unknown Task: {name!r} (known: {known})")
        return registration, checked_task_class(name, registration.cls)


def checked_task_class(name: str, task_cls: type) -> type[BaseTask]:
    """The class as a Task. Raises TaskDefinitionError for what could never run under that name."""
    try:
        validate_registration_name(name)
    except ValueError as error:
        raise TaskDefinitionError(str(error)) from None
    if not issubclass(task_cls, BaseTask):
        raise TaskDefinitionError(f"Task {name!r}: {task_cls.__qualname__} must subclass BaseTask")
    if not isinstance(task_cls.task_type, TaskType):
        raise TaskDefinitionError(
            f"Task {name!r}: {task_cls.__qualname__}.task_type must be a TaskType, got {task_cls.task_type!r}"
        )
    if TASK_ARGUMENT in task_cls.input_cls.model_fields:
        raise TaskDefinitionError(
            f"Task {name!r}: {task_cls.input_cls.__qualname__} must not have a field {TASK_ARGUMENT!r}: "
            "submissions use it for the Task's name"
        )
    return task_cls
