from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from axonx.task.identity import (
    TaskIdentity,
    TaskType,
    generated_task_name,
    new_run_id,
    parse_source_tasks,
    task_type_from_id,
    timezone_named,
)


def test_task_id_is_type_registered_name_and_task_name():
    identity = TaskIdentity(TaskType.TRAIN, "my_model", "first-try")

    assert str(identity) == "train#my_model#first-try"
    assert TaskIdentity.parse(str(identity)) == identity
    assert task_type_from_id("backtest#b#1") is TaskType.BACKTEST


@pytest.mark.parametrize(
    "task_id",
    [
        "",
        "train",
        "train#x",
        "nope#x#y",
        "train##y",
        "train#x#",
        "train#../x#y",
        "train#x#../../etc",
        "train#x#a/b",
        "train#x#a b",
        "train#x#y#z",
        "train#x#" + "a" * 33,
        "train#.#y",
        None,
        7,
    ],
)
def test_what_is_no_task_id_is_refused(task_id: str):
    with pytest.raises(ValueError, match="Invalid Task ID"):
        TaskIdentity.parse(task_id)


def test_generated_name_begins_with_the_hour_and_ends_with_four_random_characters():
    names = {generated_task_name(datetime(2026, 3, 4, 5, tzinfo=UTC)) for _ in range(50)}

    assert all(re.fullmatch(r"2026030405[a-z0-9]{4}", name) for name in names)
    assert len(names) > 40


def test_run_ids_are_32_hexadecimal_digits():
    assert re.fullmatch(r"[0-9a-f]{32}", new_run_id())
    assert new_run_id() != new_run_id()


def test_source_tasks_are_split_stripped_and_checked():
    assert parse_source_tasks("") == []
    assert parse_source_tasks(" etl#a#1 , etl#b#2,") == ["etl#a#1", "etl#b#2"]
    with pytest.raises(ValueError, match="Duplicate source Task: etl#a#1"):
        parse_source_tasks("etl#a#1,etl#a#1")
    with pytest.raises(ValueError, match="Invalid Task ID: 'x'"):
        parse_source_tasks("x")


def test_unknown_timezone_is_refused_by_name():
    assert timezone_named("UTC") is UTC
    assert str(timezone_named("Asia/Shanghai")) == "Asia/Shanghai"
    with pytest.raises(ValueError, match="Unknown timezone: 'Mars/Base'"):
        timezone_named("Mars/Base")
    with pytest.raises(ValueError, match="Unknown timezone"):
        timezone_named("../../etc/passwd")
