"""What a `plugin.yaml` may say."""

from __future__ import annotations

import pytest

from axonx.plugins.errors import ManifestError
from axonx.plugins.manifest import parse_manifest


def test_an_empty_mapping_is_a_manifest() -> None:
    manifest = parse_manifest(b"{}")
    assert (manifest.tasks, manifest.components, manifest.jobs) == ({}, {}, {})


def test_the_three_sections_are_read() -> None:
    manifest = parse_manifest(
        b"""
        tasks: {prices: "pkg.tasks:Prices"}
        components: {formatter: {pf: "pkg:Outer.Inner"}}
        jobs: {ask: {steps: [{backend: demo_step}]}}
        """
    )
    assert manifest.tasks == {"prices": "pkg.tasks:Prices"}
    assert manifest.components == {"formatter": {"pf": "pkg:Outer.Inner"}}
    assert manifest.jobs["ask"].steps[0].backend == "demo_step"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "manifest root must be a mapping"),
        ("[1]", "manifest root must be a mapping"),
        ("tasks: {", "not valid YAML: line 1, column 9"),
        ("steps: {}", "steps: Extra inputs are not permitted"),
        ("tasks: {a: 1}", "tasks.a: Input should be a valid string"),
        ("tasks: {1: 'p:C'}", "tasks.1: Input should be a valid string"),
        ("tasks: {a: pkg.C}", "tasks.a: expected 'module:Class'"),
        ("tasks: {a: 'pkg:C()'}", "tasks.a: expected 'module:Class'"),
        ("tasks: {a: 'p:C\\n'}", "tasks.a: expected 'module:Class'"),
        ("components: {fmt: 'p:C'}", "components.fmt: Input should be a valid dictionary"),
        ("components: {'': {a: 'p:C'}}", "at least 1 character"),
        ("jobs: {a/b: {}}", "jobs.a/b: a Job of this name has no URL"),
        ("jobs: {..: {}}", "jobs...: a Job of this name has no URL"),
        ("jobs: {'': {}}", "at least 1 character"),
        ("jobs: {j: {steps: [{}]}}", "jobs.j.steps.0.backend: Field required"),
        ("tasks: {}\ntasks: {}", "line 2, column 1: key 'tasks' is given twice"),
        ("tasks: {a: 'p:C'}\njobs: {j: []}\nx: 1", "; x: Extra inputs"),
        ("tasks: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("a: " + "[" * 5000, "not valid YAML"),
    ],
)
def test_a_wrong_manifest_is_refused_with_the_entry(text: str, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text.encode())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_merged_keys_may_be_overridden() -> None:
    manifest = parse_manifest(b"jobs: {a: &a {description: x}, b: {<<: *a, description: y}}")
    assert (manifest.jobs["a"].description, manifest.jobs["b"].description) == ("x", "y")


def test_a_huge_manifest_is_refused() -> None:
    with pytest.raises(ManifestError, match="larger than"):
        parse_manifest(b"#" * (1024 * 1024 + 1))
