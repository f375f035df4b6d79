from __future__ import annotations

import logging
from typing import Any

import pytest
from support.research import ActTask, RepeatWordTask

from axonx.components.registry import ProviderRegistry
from axonx.task import BaseInputParams, TaskCatalogue, TaskType
from axonx.task.demo import DemoTask
from axonx.task.errors import TaskDefinitionError, UnknownTaskError


@pytest.fixture
def registry() -> ProviderRegistry:
    registry = ProviderRegistry()
    registry.add_provider(RepeatWordTask)
    registry.add("task", "from_plugin", ActTask, "some-distribution")
    return registry


def test_tasks_are_known_by_their_registered_names(registry: ProviderRegistry):
    catalogue = TaskCatalogue(registry)

    assert catalogue.names() == ("demo", "from_plugin", "repeat_word")
    assert catalogue.resolve("demo") is DemoTask
    assert catalogue.resolve("from_plugin") is ActTask
    with pytest.raises(
        UnknownTaskError, match=r"Unknown Task: 'nope' \(known: demo, from_plugin, repeat_word\)"
    ):
        catalogue.resolve("nope")


def test_a_definition_describes_the_task(registry: ProviderRegistry):
    definition = TaskCatalogue(registry).definition("repeat_word")

    assert definition.description == "Repeat a word.\n\nThe second paragraph is indented in the source."
    assert (definition.task_type, definition.category) == (TaskType.ETL, "words")
    assert definition.input_schema["additionalProperties"] is False
    assert set(definition.input_schema["properties"]) == {"task_name", "source_tasks", "word", "times"}
    assert definition.output_schema["required"] == ["text"]
    assert "artifacts" in definition.output_schema["properties"]


def test_the_source_of_a_task_is_told(registry: ProviderRegistry):
    found = {info.name: (info.source, info.plugin) for info in TaskCatalogue(registry).usable()}

    assert found == {
        "demo": ("native", None),
        "from_plugin": ("plugin", "some-distribution"),
        "repeat_word": ("application", None),
    }


def test_schemas_can_be_left_out(registry: ProviderRegistry):
    (info, *_) = TaskCatalogue(registry).usable(include_schemas=False)

    assert set(info.model_dump()) == {"name", "source", "plugin", "category", "task_type", "description"}


class WithTaskField(BaseInputParams):
    task: str


class Unserializable:
    pass


class WithoutSchema(BaseInputParams):
    model_config = {"arbitrary_types_allowed": True}

    thing: Unserializable


@pytest.mark.parametrize(
    ("name", "task_cls", "message"),
    [
        ("a", type("NoTask", (), {}), "Task 'a': NoTask must subclass BaseTask"),
        ("a", type("A", (ActTask,), {"task_type": "nope"}), "task_type must be a TaskType, got 'nope'"),
        ("a", type("A", (ActTask,), {"input_cls": WithTaskField}), "must not have a field 'task'"),
        ("a/b", ActTask, "Invalid registered Task name: 'a/b'"),
    ],
)
def test_what_cannot_run_is_refused_by_name_and_hides_no_other(
    registry: ProviderRegistry, caplog: pytest.LogCaptureFixture, name: str, task_cls: Any, message: str
):
    registry.add("task", name, task_cls, "broken-distribution")
    catalogue = TaskCatalogue(registry)

    with pytest.raises(TaskDefinitionError, match=message):
        catalogue.resolve(name)
    with caplog.at_level(logging.WARNING):
        assert [info.name for info in catalogue.usable()] == ["demo", "from_plugin", "repeat_word"]
    assert message in caplog.text


def test_a_task_without_json_schema_hides_no_other(
    registry: ProviderRegistry, caplog: pytest.LogCaptureFixture
):
    registry.add("task", "odd", type("Odd", (ActTask,), {"input_cls": WithoutSchema}))

    assert "odd" not in [info.name for info in TaskCatalogue(registry).usable()]
    assert "Task 'odd' cannot be listed" in caplog.text
    assert "odd" in [info.name for info in TaskCatalogue(registry).usable(include_schemas=False)]
