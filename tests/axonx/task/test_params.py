from __future__ import annotations

import pytest
from pydantic import ValidationError

from axonx.task import BaseInputParams, BaseOutputParams, TaskType


class LoginInput(BaseInputParams):
    password: int


@pytest.mark.parametrize("name", [None, ""])
def test_missing_or_empty_task_name_means_generated(name: str | None):
    assert BaseInputParams(task_name=name).task_name is None


@pytest.mark.parametrize("name", ["a", "A-9", "x" * 32])
def test_task_name_takes_letters_digits_and_hyphens(name: str):
    assert BaseInputParams(task_name=name).task_name == name


@pytest.mark.parametrize("name", ["x" * 33, "a_b", "a b", "a/b", "ä", "a#b", 5])
def test_other_task_names_are_refused(name: object):
    with pytest.raises(ValidationError, match="task_name must be"):
        BaseInputParams(task_name=name)


def test_unknown_fields_are_refused():
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        BaseInputParams.model_validate({"tsak_name": "x"})
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        BaseOutputParams.model_validate({"result": 1})


def test_error_messages_do_not_repeat_the_values():
    with pytest.raises(ValidationError) as caught:
        LoginInput.model_validate({"password": "hunter2"})

    assert "password" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_assignments_are_validated():
    params = BaseInputParams()

    with pytest.raises(ValidationError):
        params.task_name = "not a name"


def test_the_one_source_of_a_type_is_found():
    params = BaseInputParams(source_tasks="etl#a#1, train#b#2,etl#c#3")

    assert params.source_task_ids() == ["etl#a#1", "train#b#2", "etl#c#3"]
    assert params.source_task(TaskType.TRAIN) == "train#b#2"
    with pytest.raises(ValueError, match="exactly one etl Task, found 2"):
        params.source_task(TaskType.ETL)
    with pytest.raises(ValueError, match="exactly one predict Task, found 0"):
        params.source_task(TaskType.PREDICT)


def test_wrong_source_tasks_are_refused():
    with pytest.raises(ValidationError, match="Duplicate source Task"):
        BaseInputParams(source_tasks="etl#a#1,etl#a#1")
