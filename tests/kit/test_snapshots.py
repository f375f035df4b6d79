"""What is installed from a folder is a copy of it, without links and without ballast."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from deerflow.kit import snapshots
from deerflow.kit.errors import KitError
from deerflow.kit.snapshots import take_snapshot


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "acme" / "deep").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "Acme_Audit"\n')
    (folder / "acme" / "__init__.py").write_text("a = 1\n")
    (folder / "acme" / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "acme" / "deep" / "run.sh").chmod(0o755)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state" / "extensions"


FILES = {"pyproject.toml", "acme/__init__.py", "acme/deep/run.sh"}


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_copy_has_the_files_and_the_name(source: Path, store: Path) -> None:
    snapshot = take_snapshot(source, store)
    assert snapshot.name == "acme-audit"
    assert snapshot.path.parent == store / "acme-audit"
    assert _files(snapshot.path) == FILES
    assert os.access(snapshot.path / "acme/deep/run.sh", os.X_OK)
    (source / "acme" / "__init__.py").write_text("changed")
    assert (snapshot.path / "acme" / "__init__.py").read_text() == "a = 1\n"


def test_the_same_content_is_the_same_copy_and_any_change_another(source: Path, store: Path) -> None:
    first = take_snapshot(source, store)
    assert take_snapshot(source, store) == first
    digests = {first.digest}
    (source / "acme" / "__init__.py").write_text("a = 2\n")
    digests.add(take_snapshot(source, store).digest)
    (source / "acme" / "__init__.py").rename(source / "acme" / "other.py")
    digests.add(take_snapshot(source, store).digest)
    (source / "acme" / "other.py").chmod(0o755)
    digests.add(take_snapshot(source, store).digest)
    assert len(digests) == 4
    assert {path.name[0] for path in (store / "acme-audit").iterdir()}.isdisjoint(".")


def test_version_control_caches_and_environments_are_left_out(source: Path, store: Path) -> None:
    for folder in (".git", "acme/__pycache__", ".deer-flow", "env"):
        (source / folder).mkdir()
        (source / folder / "file").write_text("x")
    (source / "env" / "pyvenv.cfg").write_text("")
    (source / "env" / "python").symlink_to("/usr/bin/python3")
    assert _files(take_snapshot(source, store).path) == {
        "pyproject.toml",
        "acme/__init__.py",
        "acme/deep/run.sh",
    }


def test_state_inside_of_the_folder_is_not_copied_into_itself(source: Path) -> None:
    store = source / "state"
    snapshot = take_snapshot(source, store)
    assert take_snapshot(source, store) == snapshot
    assert _files(snapshot.path) == FILES


@pytest.mark.parametrize("target", ["/etc", "/etc/hostname", "nowhere", "__init__.py"])
def test_links_are_refused(source: Path, store: Path, target: str) -> None:
    (source / "acme" / "linked").symlink_to(target)
    with pytest.raises(KitError, match="acme/linked is a link"):
        take_snapshot(source, store)
    assert list((store / "acme-audit").iterdir()) == []


def test_what_is_no_file_is_refused(source: Path, store: Path) -> None:
    os.mkfifo(source / "pipe")
    with pytest.raises(KitError, match="pipe is no plain file"):
        take_snapshot(source, store)
    (source / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "socket"))
        with pytest.raises(KitError, match="socket is no plain file"):
            take_snapshot(source, store)


def test_too_much_is_refused_and_nothing_is_left(
    source: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_FILES", 2)
    with pytest.raises(KitError, match="holds more than 2 files"):
        take_snapshot(source, store)
    monkeypatch.setattr(snapshots, "MOST_FILES", 100)
    monkeypatch.setattr(snapshots, "MOST_BYTES", 1024 * 1024)
    (source / "big").write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(KitError, match="holds more than 1 MB"):
        take_snapshot(source, store)
    assert list((store / "acme-audit").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "has no pyproject.toml"),
        ("[project]\n", r"has no \[project\] name"),
        ("name = [", "cannot be read"),
        ("project = 1\n", r"has no \[project\] name"),
    ],
)
def test_a_folder_without_a_named_distribution_is_refused(
    tmp_path: Path, store: Path, text: str | None, problem: str
) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(KitError, match=problem):
        take_snapshot(tmp_path, store)
