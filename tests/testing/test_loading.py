"""An extension under test is named by its entry point, its folder, its file or its function."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from deerflow.extensions import ExtensionLoadError, get_loaded_extensions
from deerflow.testing import load_extension

SOURCE = """
from deerflow_extension_api import TaskLifecycleContributor

class Hooks(TaskLifecycleContributor):
    pass

def install(registry, config):
    if config.get("refuse"):
        raise ValueError("set refuse to false")
    registry.task_lifecycle(Hooks())
"""


@pytest.fixture
def name() -> str:
    """A module name that no other test has imported."""
    return f"made_{uuid4().hex}"


@pytest.fixture(autouse=True)
def _import_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def _distribution(folder: Path, name: str, *entry_points: str) -> Path:
    lines = "\n".join(f'entry{number} = "{use}"' for number, use in enumerate(entry_points))
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "1"\n[project.entry-points."deerflow.extensions"]\n{lines}\n'
    )
    return folder


@pytest.mark.parametrize("layout", [".", "src"])
def test_a_folder_is_loaded_by_the_entry_point_that_it_declares(
    tmp_path: Path, name: str, layout: str
) -> None:
    package = tmp_path / layout / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SOURCE)
    loaded = load_extension(_distribution(tmp_path, name, f"{name}:install"))
    assert [source for source, _ in loaded.task_lifecycle] == [f"{name}:install"]
    assert get_loaded_extensions() is not loaded


def test_a_file_is_loaded_by_its_install(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(SOURCE)
    assert [source for source, _ in load_extension(file).task_lifecycle] == [f"{name}:install"]


def test_config_reaches_install_and_a_refusal_says_why(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(SOURCE)
    with pytest.raises(ExtensionLoadError, match=r"failed to install: .*set refuse to false") as refused:
        load_extension(file, {"refuse": True})
    assert isinstance(refused.value.__cause__, ValueError)


def test_a_function_is_loaded_as_it_is() -> None:
    seen: list[Any] = []
    load_extension(lambda registry, config: seen.append(config), {"a": 1})
    assert seen == [{"a": 1}]


@pytest.mark.parametrize("count", [0, 2])
def test_a_folder_with_none_or_several_entry_points_is_refused(tmp_path: Path, name: str, count: int) -> None:
    folder = _distribution(tmp_path, name, *[f"{name}:install"] * count)
    with pytest.raises(ExtensionLoadError, match=f"has {count} entries"):
        load_extension(folder)


def test_a_namesake_from_elsewhere_is_not_tested_by_mistake(tmp_path: Path, name: str) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.py").write_text(SOURCE)
    load_extension(tmp_path / "one" / f"{name}.py")
    with pytest.raises(ExtensionLoadError, match="would be imported from"):
        load_extension(tmp_path / "other" / f"{name}.py")


@pytest.mark.parametrize("what", [Path("nowhere"), 7])
def test_what_names_no_extension_is_refused(what: Any) -> None:
    with pytest.raises(ExtensionLoadError):
        load_extension(what)
