"""Public repositories are read over HTTPS, at the asked-for state, and nothing else happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.git_server import commit_all, git, served

from deerflow.kit.errors import KitError
from deerflow.kit.git_fetch import fetch_repository
from deerflow.kit.sources import GitSource


@dataclass(frozen=True)
class Repository:
    url: str
    first: str
    second: str


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    root = tmp_path_factory.mktemp("served")
    folder = root / "audit.git"
    folder.mkdir()
    (folder / "file").write_text("one")
    first = commit_all(folder, "one", tag="v1")
    (folder / "file").write_text("two")
    second = commit_all(folder, "two")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    with pytest.MonkeyPatch.context() as patch, served(root, root / "ca.pem") as address:
        patch.setenv("GIT_SSL_CAINFO", str(root / "ca.pem"))
        yield Repository(f"{address}/audit.git", first, second)


def test_the_newest_state_is_fetched_by_default(repository: Repository, tmp_path: Path) -> None:
    assert fetch_repository(GitSource(repository.url), tmp_path) == repository.second
    assert (tmp_path / "file").read_text() == "two"


@pytest.mark.parametrize("ref", ["v1", "commit"])
def test_a_tag_or_commit_is_fetched_as_it_is(repository: Repository, tmp_path: Path, ref: str) -> None:
    ref = repository.first if ref == "commit" else ref
    assert fetch_repository(GitSource(repository.url, ref), tmp_path) == repository.first
    assert (tmp_path / "file").read_text() == "one"


def test_what_is_not_there_is_one_line(repository: Repository, tmp_path: Path) -> None:
    for source in (GitSource(repository.url, "v9"), GitSource(repository.url.replace("audit", "none"))):
        with pytest.raises(KitError, match="git failed: ") as failed:
            fetch_repository(source, tmp_path)
        assert len(str(failed.value).splitlines()) == 1


def test_no_other_protocol_is_spoken_whatever_git_is_configured_to(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text('[url "file:///"]\n\tinsteadOf = https://files.example/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "into").mkdir()
    with pytest.raises(KitError, match="'file' not allowed"):
        fetch_repository(GitSource(f"https://files.example{tmp_path}/any.git"), tmp_path / "into")


def test_a_certificate_that_nobody_vouches_for_is_refused(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIT_SSL_CAINFO")
    with pytest.raises(KitError, match="certificate"):
        fetch_repository(GitSource(repository.url), tmp_path)


def test_without_git_a_folder_is_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KitError, match="git is not installed"):
        fetch_repository(GitSource("https://example.org/a.git"), tmp_path)
