"""What a bridge's record may say, and the tools that come of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import step
from support.bridging import bridge

from axonx import Application, BaseStep
from deerflow.axonx_bridge.application import build_application
from deerflow.axonx_bridge.options import read_options
from deerflow.axonx_bridge.tool_names import tool_name
from deerflow.errors import ConfigError


async def nothing(self: BaseStep) -> None:
    """Answers nothing."""


def application(tmp_path: Path, *jobs: str, **hidden: str) -> Application:
    entries: dict[str, Any] = {name: {"steps": [{"backend": "step"}]} for name in jobs}
    entries |= {name: {"steps": [], "enable_serve": False} for name in hidden.values()}
    return Application(providers=(step(nothing),), workspace_dir=tmp_path, jobs=entries)


def test_public_jobs_are_offered_where_none_is_named(tmp_path: Path) -> None:
    assert list(bridge(application(tmp_path, "a", "b", hidden="c")).tools) == ["a", "b"]


def test_a_job_that_is_not_served_is_offered_where_it_is_named(tmp_path: Path) -> None:
    assert list(bridge(application(tmp_path, "a", hidden="c"), jobs=["c"]).tools) == ["c"]


def test_no_jobs_may_be_offered(tmp_path: Path) -> None:
    assert bridge(application(tmp_path, "a"), jobs=[]).tools == {}


def test_an_unknown_job_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"config\.jobs: 'x' is no Job of the application; configured: a, b"
    ):
        bridge(application(tmp_path, "a", "b"), jobs=["a", "x"])


@pytest.mark.parametrize(
    ("name", "prefix", "expected"),
    [
        ("query", "", "query"),
        ("sales report/2024", "", "sales_report_2024"),
        ("query", "sales_", "sales_query"),
        ("größe", "", "gr__e"),
        ("x" * 80, "p_", "p_" + "x" * 62),
    ],
)
def test_a_name_becomes_one_that_a_tool_may_have(name: str, prefix: str, expected: str) -> None:
    assert tool_name(name, prefix) == expected


def test_jobs_whose_tools_would_have_one_name_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        bridge(application(tmp_path, "a b", "a.b", "c", "c d", "c/d"))
    assert str(refused.value).splitlines() == [
        "Job 'a b' and Job 'a.b' would both be the tool 'a_b': give one of them a name of its own, "
        "as in jobs: [{name: ..., tool: ...}]",
        "Job 'c d' and Job 'c/d' would both be the tool 'c_d': give one of them a name of its own, "
        "as in jobs: [{name: ..., tool: ...}]",
    ]


def test_a_tool_may_have_a_name_of_its_own(tmp_path: Path) -> None:
    jobs = ["a b", {"name": "a.b", "tool": "ab"}]
    assert list(bridge(application(tmp_path, "a b", "a.b"), jobs=jobs, tool_prefix="p_").tools) == [
        "p_a_b",
        "ab",
    ]


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        ({}, ["config.application: Field required"]),
        (
            {"application": {}, "job": ["a"], "agents": []},
            [
                "config.agents: Tuple should have at least 1 item after validation, not 0",
                "config.job: is an unknown key; allowed: application, providers, jobs, tasks, tool_prefix, "
                "agents, artifacts_folder, max_artifact_bytes, timeout_seconds",
            ],
        ),
        ({"application": {}, "jobs": "all"}, ["config.jobs: Input should be a valid tuple"]),
        ({"application": {}, "tasks": [{"tool": "x"}]}, ["config.tasks[0].name: Field required"]),
    ],
)
def test_every_wrong_field_has_a_line(config: dict[str, Any], lines: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        read_options(config)
    assert str(refused.value).splitlines() == lines


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"application": "no/such.yaml"}, "config.application: there is no file 'no/such.yaml'"),
        ({"application": {"providers": []}}, "application.providers: is not part of"),
        (
            {"application": {}, "providers": ["json:dumps"]},
            r"config.providers\[0\]: 'json:dumps' is a function",
        ),
        ({"application": {}, "providers": ["json"]}, r"config.providers\[0\]: 'json' is not of the form"),
        ({"application": {"jobz": {}}}, "jobz"),
        ({"application": {"jobs": {"a": {"parameters": {"type": "array"}}}}}, "must describe a JSON object"),
        ({"application": {}, "tasks": ["nope"]}, "Unknown Task: 'nope'"),
    ],
)
def test_what_no_application_can_be_built_of_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        options = read_options(config)
        bridge(build_application(options), jobs=[], tasks=[choice.model_dump() for choice in options.tasks])


def test_an_application_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "application.yaml"
    file.write_text("app_name: Filed\njobs: {greet: {steps: [{backend: demo_step}]}}\n")
    built = build_application(read_options({"application": str(file)}))
    assert built.app_config.app_name == "Filed"
    assert list(built.context.jobs) == ["greet"]


def test_tasks_bring_the_components_that_they_need() -> None:
    built = build_application(read_options({"application": {}, "tasks": ["demo"]}))
    assert set(built.context.components) == {"task_repository", "task_manager"}
