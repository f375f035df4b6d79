"""`deerflow extensions new` writes a distribution that is right from the first minute."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from deerflow_extension_api import API_VERSION
from packaging.requirements import Requirement

from deerflow.cli.main import run
from deerflow.kit import scaffold
from deerflow.kit.errors import KitError, WrongUseError
from deerflow.kit.scaffold import KIND_NAMES, KINDS, write_extension

PLUGIN = "deerflow.testing.plugin"


def _python(folder: Path, *arguments: str, paths: tuple[Path, ...] = ()) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _pytest(folder: Path, *arguments: str, paths: tuple[Path, ...] = ()) -> str:
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", PLUGIN]
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", "--import-mode=importlib", *plugin]
    return _python(folder, "pytest", *options, *arguments, paths=paths)


def test_with_every_kind_its_own_tests_pass_at_once(tmp_path: Path) -> None:
    folder = write_extension("acme-audit", directory=tmp_path)
    assert " passed" in _pytest(folder)


def test_with_one_kind_its_own_tests_pass_at_once(tmp_path: Path) -> None:
    folders = tuple(write_extension(f"only-{kind}", [kind], tmp_path) for kind in KIND_NAMES)
    for folder, kind in zip(folders, KINDS, strict=True):
        tests = {path.stem.removeprefix("test_") for path in (folder / "tests").iterdir()}
        assert tests == {"extension", kind.module}
        modules = {path.stem for path in (folder / f"only_{kind.module}").iterdir()}
        assert modules == {"__init__", "py", "seen", kind.module}
    # Every scenario and fault is thrown at all kinds together in the test above.
    quick = "not disturbed and not fault and (lead or not complains)"
    assert " passed" in _pytest(tmp_path, "-k", quick, *map(str, folders), paths=folders)


def test_the_contract_is_required_in_the_range_of_this_host(tmp_path: Path) -> None:
    project = tomllib.loads((write_extension("acme", directory=tmp_path) / "pyproject.toml").read_text())
    (contract,) = [
        requirement
        for requirement in map(Requirement, project["project"]["dependencies"])
        if requirement.name == "deerflow-extension-api"
    ]
    major, minor, *_ = map(int, API_VERSION.split("."))
    assert API_VERSION in contract.specifier
    assert f"{major}.{minor + 1}.0" not in contract.specifier
    assert project["project"]["entry-points"]["deerflow.extensions"] == {"acme": "acme:install"}


def test_what_is_written_keeps_the_usual_rules_of_style(tmp_path: Path) -> None:
    folder = write_extension("acme-audit", directory=tmp_path)
    _python(
        folder,
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--select",
        "E,F,W,I,B,UP",
        "--line-length",
        "110",
    )
    _python(folder, "ruff", "format", "--isolated", "--no-cache", "--check", "--line-length", "110")


@pytest.mark.parametrize(
    "name",
    ["", "Acme", "acme_audit", "../acme", "acme-", "1acme", "acme--audit", "a" * 65, "acme audit", "é"],
)
def test_a_name_that_no_distribution_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WrongUseError, match="such as acme-audit"):
        write_extension(name, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["json", "class", "deerflow", "pytest", "tool-call-counter"])
def test_a_name_that_would_hide_another_module_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WrongUseError, match=r"is taken|installed already"):
        write_extension(name, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_exists_is_never_touched(tmp_path: Path, kind: str) -> None:
    there = tmp_path / "acme"
    if kind == "folder":
        there.mkdir()
        (there / "pyproject.toml").write_text("mine")
    elif kind == "file":
        there.write_text("mine")
    else:
        there.symlink_to(tmp_path / "nowhere")
    with pytest.raises(KitError, match="exists already"):
        write_extension("acme", directory=tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == (
        ["acme", "pyproject.toml"] if kind == "folder" else ["acme"]
    )


def test_a_failure_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: object) -> object:
        yield "README.md", "text"
        raise OSError("no space left")

    monkeypatch.setattr(scaffold, "_contents", failing)
    with pytest.raises(OSError, match="no space left"):
        write_extension("acme", directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["extensions", "new", "acme", "--kind", "lifecycle", "--dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"wrote {tmp_path / 'acme'}"
    assert lines[1:] == [
        f"test it:     python -m pytest {tmp_path / 'acme'}",
        f"install it:  deerflow extensions install {tmp_path / 'acme'}",
    ]


def test_where_pytest_is_missing_the_command_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pytest", None)
    assert run(["extensions", "new", "acme", "--kind", "lifecycle", "--dir", str(tmp_path)]) == 0
    assert "test it:     pip install pytest && python -m pytest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["Acme"], 2), (["acme", "--kind", "nonsense"], 2), (["acme", "--dir", "missing"], 2), (["taken"], 1)],
)
def test_failures_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    assert run(["extensions", "new", *arguments]) == status
    written = capsys.readouterr()
    assert written.out == "" and len(written.err.splitlines()) == 1
