"""The configuration of an Application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from axonx import Application


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"colour": 1}, "colour"),
        ({"language": "fr"}, "language"),
        ({"transfer_budget_bytes": "1"}, "transfer_budget_bytes"),
        ({"timezone": "Mars/Olympus"}, "Unknown timezone: 'Mars/Olympus'"),
        ({"job_close_timeout_seconds": 0}, "job_close_timeout_seconds"),
        ({"components": {"fmt": {"a": {"backend": ""}}}}, "components.fmt.a.backend"),
        ({"components": {"fmt": {"a": {}}}}, "components.fmt.a.backend"),
        ({"jobs": {"j": {"steps": [{}]}}}, "jobs.j.steps.0.backend"),
        ({"targets": [{"address": "h:1", "colour": 1}]}, "targets.0.colour"),
        ({"targets": [{"address": "h:1", "token": ""}]}, "targets.0.token"),
    ],
)
def test_a_wrong_configuration_names_the_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Application(**config)
    assert field in str(caught.value)


def test_a_wrong_configuration_shows_no_values() -> None:
    with pytest.raises(ValueError) as caught:
        Application(targets=[{"address": "h:1", "token": ["s3cret"]}])
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("category", ["job", "scheduler", "service"])
def test_sections_of_their_own_are_no_component_categories(category: str) -> None:
    with pytest.raises(ValueError, match=rf"components\.{category}: configure it under"):
        Application(components={category: {"a": {"backend": "b"}}})


def test_defaults_are_quiet(tmp_path: Path) -> None:
    config = Application(workspace_dir=tmp_path / "w", log_dir=tmp_path / "l").app_config
    assert (config.timezone, config.log_to_console, config.log_to_file) == ("UTC", False, False)
    assert list(tmp_path.iterdir()) == []


def test_settings_of_other_distributions_are_accepted(tmp_path: Path) -> None:
    Application(
        workspace_dir=tmp_path, enable_logo=True, language="zh", transfer_budget_bytes=1, studio={"pages": {}}
    )
