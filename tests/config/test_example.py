"""The example file tells the truth."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deerflow.config import AppConfig, config_from, load_config
from deerflow.config.drift import section_in
from deerflow.config.fields import Section

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"


def reachable(section: type[Section]) -> set[type[Section]]:
    found = {section}
    for field in section.model_fields.values():
        inner = section_in(field.annotation)
        if inner is not None:
            found |= reachable(inner)
    return found


def test_example_is_equal_to_the_defaults(caplog: pytest.LogCaptureFixture) -> None:
    assert load_config(EXAMPLE) == AppConfig()
    assert caplog.messages == []


def test_example_writes_out_every_key_of_every_section() -> None:
    written = load_config(EXAMPLE).model_dump(exclude_unset=True)
    assert written == AppConfig().model_dump()


@pytest.mark.parametrize(
    "section", sorted(reachable(AppConfig), key=lambda s: s.__name__), ids=lambda s: s.__name__
)
def test_example_names_every_key_that_exists(section: type[Section]) -> None:
    text = EXAMPLE.read_text()
    written = r"\b{}(: |:$|, | as above)"
    missing = [key for key in section.model_fields if not re.search(written.format(key), text, re.MULTILINE)]
    assert missing == []


def commented_block(key: str) -> Any:
    """The commented lines that stand below `key`, as YAML."""
    lines = EXAMPLE.read_text().splitlines()
    at = next(index for index, line in enumerate(lines) if re.match(rf" *{key}: [\[{{]", line))
    block = itertools.takewhile(lambda line: re.match(r" *# ", line), lines[at + 1 :])
    return yaml.safe_load("\n".join(line.replace("# ", "  ", 1) for line in block))


def test_commented_examples_are_valid(caplog: pytest.LogCaptureFixture) -> None:
    model = {"name": "gpt", "use": "langchain_openai:ChatOpenAI"}
    agents = {key: commented_block(key) for key in ("agents", "custom_agents")}
    data = {"models": [model], "tools": commented_block("tools"), "plugins": commented_block("plugins")}
    config = config_from({**data, "subagents": agents})
    assert [spec.table_prefix for spec in config.plugins] == ["acme_"]
    assert [record.use for record in config.tools] == ["my_package.tools:search"]
    assert config.subagents.limits_for("general-purpose").max_turns == 200
    assert config.subagents.limits_for("reviewer").tools == ("read_file",)
    assert caplog.messages == []
