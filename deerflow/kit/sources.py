"""Where an extension comes from: a package index, a folder, or a public git repository."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from deerflow.kit.errors import WrongUseError

ALLOWED: Final = (
    "a requirement such as 'acme-audit>=1,<2', a folder such as ./acme-audit, "
    "or a repository such as https://example.org/acme/audit.git@v1"
)
_REF: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SSH: Final = re.compile(r"[\w.-]+@[\w.-]+:")


@dataclass(frozen=True)
class PackageSource:
    """A requirement that the installer looks up in its index."""

    requirement: str

    def __str__(self) -> str:
        return self.requirement

    @property
    def described(self) -> str:
        return f"the package {self.requirement} from your package index"


@dataclass(frozen=True)
class FolderSource:
    """A folder of this machine; a copy of it is what gets installed."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def described(self) -> str:
        return f"a copy of the folder {self.path}"


@dataclass(frozen=True)
class GitSource:
    """A repository that anybody may read; `ref` is a branch, a tag or a commit, default its main branch."""

    url: str
    ref: str | None = None

    def __str__(self) -> str:
        return self.url if self.ref is None else f"{self.url}@{self.ref}"

    @property
    def described(self) -> str:
        return f"the repository {self}"


Source: TypeAlias = PackageSource | FolderSource | GitSource


def parse_source(text: str) -> Source:
    """Return the source that `text` names. What has no slash is a requirement, whatever folders there are.

    Raises `WrongUseError`.
    """
    scheme = _SCHEME.match(text)
    if scheme is not None:
        return _git_source(text, scheme[1].lower())
    if "://" in text:
        raise _not_allowed("that text", "give the URL alone")
    if _SSH.match(text):
        raise _not_allowed(text, "repositories are read over https, without an account")
    if "/" in text or os.sep in text or text.startswith((".", "~")):
        return _folder_source(text)
    return _package_source(text)


def _git_source(text: str, scheme: str) -> GitSource:
    if scheme not in ("https", "git+https"):
        raise _not_allowed(text.partition("://")[0] + "://...", "repositories are read over https")
    text = text[4:] if scheme == "git+https" else text
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _not_allowed("that URL", str(error)) from error
    if parts.username is not None or parts.password is not None:
        raise WrongUseError(
            "source: a URL with a user name or password is not allowed, it would be stored and shown; "
            "clone the repository yourself and install the folder"
        )
    path, at, ref = parts.path.rpartition("@")
    path, ref = (path, ref) if at else (parts.path, "")
    if not parts.hostname or not path.strip("/") or parts.query or parts.fragment:
        raise _not_allowed(text, "a host and the path of a repository are needed, and nothing after it")
    if at and (not _REF.fullmatch(ref) or ".." in ref):
        raise _not_allowed(text, f"{ref!r} is no branch, tag or commit")
    host = parts.hostname if port is None else f"{parts.hostname}:{port}"
    return GitSource(f"https://{host}{path}", ref or None)


def _folder_source(text: str) -> FolderSource:
    path = Path(text).expanduser().resolve()
    if not path.is_dir():
        what = "is a file; name the folder with its pyproject.toml" if path.exists() else "no such folder"
        raise WrongUseError(f"source {text}: {what}")
    return FolderSource(path)


def _package_source(text: str) -> PackageSource:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise _not_allowed(text, str(error).splitlines()[0]) from error
    if requirement.url is not None:
        raise _not_allowed(text, "give the URL alone")
    return PackageSource(str(requirement))


def _not_allowed(text: str, reason: str) -> WrongUseError:
    return WrongUseError(f"source {text!r} is not allowed: {reason}; allowed: {ALLOWED}")
