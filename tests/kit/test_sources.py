"""What may be named as the source of an extension, and what may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.kit.errors import WrongUseError
from deerflow.kit.sources import FolderSource, GitSource, PackageSource, parse_source


@pytest.mark.parametrize(
    "text", ["acme-audit", "acme-audit>=1,<2", "acme_audit[extra]==1.0", "a~=1.0; python_version>'3'"]
)
def test_a_requirement_is_a_package(text: str) -> None:
    source = parse_source(text)
    assert isinstance(source, PackageSource)
    assert "package index" in source.described


def test_a_folder_needs_a_slash_so_that_none_is_taken_by_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme").mkdir()
    assert parse_source("acme") == PackageSource("acme")
    for text in ("./acme", "acme/", str(tmp_path / "acme")):
        assert parse_source(text) == FolderSource((tmp_path / "acme").resolve())
    assert parse_source(".") == FolderSource(tmp_path.resolve())


@pytest.mark.parametrize(
    ("text", "url", "ref"),
    [
        ("https://example.org/acme/audit.git", "https://example.org/acme/audit.git", None),
        ("https://example.org/acme/audit@v1.2", "https://example.org/acme/audit", "v1.2"),
        ("git+https://EXAMPLE.org:8443/a.git@feature/x", "https://example.org:8443/a.git", "feature/x"),
        ("https://example.org/@scope/audit.git@0a1b2c", "https://example.org/@scope/audit.git", "0a1b2c"),
    ],
)
def test_a_https_url_is_a_repository_with_or_without_a_ref(text: str, url: str, ref: str | None) -> None:
    assert parse_source(text) == GitSource(url, ref)
    assert parse_source(str(parse_source(text))) == GitSource(url, ref)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http://example.org/a.git", "repositories are read over https"),
        ("ssh://git@example.org/a.git", "repositories are read over https"),
        ("git+ssh://git@example.org/a.git", "repositories are read over https"),
        ("file:///srv/a.git", "repositories are read over https"),
        ("ext::sh -c touch% /tmp/x", "no such folder"),
        ("git@example.org:acme/a.git", "without an account"),
        ("https://user:secret@example.org/a.git", "a URL with a user name or password"),
        ("https://token@example.org/a.git", "a URL with a user name or password"),
        ("https://example.org", "a host and the path of a repository"),
        ("https://example.org/a.git?x=1", "a host and the path of a repository"),
        ("https://example.org/a.git#egg=a", "a host and the path of a repository"),
        ("https://example.org/a.git@--upload-pack=x", "is no branch, tag or commit"),
        ("https://example.org/a.git@a..b", "is no branch, tag or commit"),
        ("https://example.org:port/a.git", "that URL"),
        ("https:///a.git", "a host and the path"),
        ("./missing", "no such folder"),
        ("acme @ https://user:secret@example.org/a.whl", "give the URL alone"),
        ("acme @ file:a.whl", "give the URL alone"),
        ("-r", "allowed: a requirement"),
        ("--index-url", "allowed: a requirement"),
        ("", "allowed: a requirement"),
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(text: str, reason: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        parse_source(text)
    assert reason in str(refused.value)
    assert "secret" not in str(refused.value) and len(str(refused.value).splitlines()) == 1


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_text("")
    with pytest.raises(WrongUseError, match=r"is a file; name the folder with its pyproject\.toml"):
        parse_source(str(tmp_path / "a.whl"))
