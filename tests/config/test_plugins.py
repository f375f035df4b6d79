"""Records of the `plugins:` list."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pydantic import ValidationError

from deerflow.config import ExtensionSpec, load_config


def test_defaults() -> None:
    spec = ExtensionSpec(use="a:b")
    assert (spec.name, spec.package, spec.enabled, spec.required) == (None, None, True, False)
    assert (spec.config, spec.table_prefix) == ({}, None)


def test_use_without_colon_is_left_to_the_loader() -> None:
    assert ExtensionSpec(use="acme").use == "acme"


def test_no_config_is_an_empty_one() -> None:
    assert ExtensionSpec.model_validate({"use": "a:b", "config": None}).config == {}


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"use": None},
        {"use": ""},
        {"use": "a:b", "requierd": True},
        {"use": "a:b", "tabel_prefix": "x"},
        {"use": "a:b", "table_prefix": ""},
        {"use": "a:b", "enabled": "true"},
        {"use": "a:b", "required": 1},
        {"use": "a:b", "required": None},
        {"use": "a:b", "config": []},
    ],
)
def test_wrong_records_are_refused(record: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ExtensionSpec.model_validate(record)


def test_nested_config_belongs_to_one_record(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("plugins:\n- {use: a, config: {x: &x {l: [1]}}}\n- {use: a, config: {x: *x}}\n")
    first, second = load_config(path).plugins
    first.config["x"]["l"].append(2)
    assert second.config == {"x": {"l": [1]}}


def test_config_handed_out_can_be_changed_without_changing_the_record() -> None:
    spec = ExtensionSpec(use="a:b", config={"x": {"l": [1]}})
    spec.fresh_config()["x"]["l"].append(2)
    assert spec.config == {"x": {"l": [1]}}


def test_objects_in_config_are_handed_on_as_they_are() -> None:
    lock = threading.Lock()
    assert ExtensionSpec(use="a:b", config={"lock": lock}).fresh_config()["lock"] is lock


def test_config_that_contains_itself_is_copied_with_its_shape() -> None:
    loop: dict[str, object] = {}
    loop["self"] = loop
    copied = ExtensionSpec(use="a:b", config={"x": loop}).fresh_config()["x"]
    assert copied is not loop
    assert copied["self"] is copied


def test_records_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ExtensionSpec(use="a:b").use = "c:d"  # type: ignore[misc]
