"""Copies of folders, so that what was installed stays what was looked at."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from deerflow.kit.errors import KitError

MOST_FILES: Final = 10_000
MOST_BYTES: Final = 200 * 1024 * 1024
_SKIPPED: Final = frozenset(
    {
        ".git", ".hg", ".svn", "__pycache__", "node_modules", ".tox", ".nox",
        ".pytest_cache", ".mypy_cache", ".ruff_cache", ".deer-flow",
    }
)  # fmt: skip
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True)
class Snapshot:
    """A copy under `path`; `name` is the distribution's, `digest` that of all paths and bytes in it."""

    path: Path
    name: str
    digest: str


def take_snapshot(source: Path, store: Path) -> Snapshot:
    """Copy `source` into a folder of its own below `store`. Raises `KitError`; nothing is left then.

    Version control, caches and virtual environments are left out. Links and special files are refused:
    what they point at is not what was looked at.
    """
    name = _distribution_name(source)
    folder = store / name
    folder.mkdir(parents=True, exist_ok=True)
    copy = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        copying = _Copying(source, copy, store)
        copying.run()
        digest = copying.digest.hexdigest()
        target = folder / digest[:16]
        if target.exists():
            shutil.rmtree(copy)
        else:
            copy.rename(target)
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    return Snapshot(target, name, digest)


def _distribution_name(source: Path) -> str:
    file = source / "pyproject.toml"
    try:
        project: Any = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except FileNotFoundError:
        raise KitError(f"{source}: has no pyproject.toml; name the folder of a distribution") from None
    except (OSError, ValueError) as error:
        raise KitError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    name = project.get("name") if isinstance(project, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise KitError(f"{file}: has no [project] name; write one")
    return canonicalize_name(name)


@dataclass
class _Copying:
    """One copy under way. It holds on to open folders, so that none can become a link meanwhile."""

    source: Path
    target: Path
    store: Path
    digest: Any = field(default_factory=hashlib.sha256)
    files: int = 0
    size_bytes: int = 0

    def run(self) -> None:
        for relative, name, folder_fd in self._files():
            path = f"{relative}/{name}" if relative else name
            self.files += 1
            if self.files > MOST_FILES:
                raise KitError(f"{self.source}: holds more than {MOST_FILES} files; name a smaller folder")
            self._copy(path, name, folder_fd)

    def _files(self) -> Iterator[tuple[str, str, int]]:
        """Yield folder, name and open folder of every file, sorted; raises for what is no plain file."""
        for root, folders, files, folder_fd in os.fwalk(self.source, follow_symlinks=False, onerror=_raise):
            relative = os.path.relpath(root, self.source) if root != str(self.source) else ""
            here = Path(root)
            folders[:] = [name for name in sorted(folders) if self._is_wanted(here / name, folder_fd)]
            for folder in folders:
                (self.target / relative / folder).mkdir()
            for name in sorted(files):
                mode = os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode
                if not stat.S_ISREG(mode):
                    raise self._refuse(os.path.join(relative, name), mode)
                yield relative, name, folder_fd

    def _is_wanted(self, path: Path, folder_fd: int) -> bool:
        if path.name in _SKIPPED:
            return False
        mode = os.stat(path.name, dir_fd=folder_fd, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            raise self._refuse(os.path.relpath(path, self.source), mode)
        return not (path / "pyvenv.cfg").exists() and path.resolve() != self.store.resolve()

    def _refuse(self, path: str, mode: int) -> KitError:
        if stat.S_ISLNK(mode):
            return KitError(f"{self.source}: {path} is a link; put what it points at in its place")
        return KitError(f"{self.source}: {path} is no plain file; remove it")

    def _copy(self, path: str, name: str, folder_fd: int) -> None:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder_fd)
        with open(handle, "rb") as original, (self.target / path).open("wb") as copy:
            executable = os.fstat(handle).st_mode & 0o111
            self.digest.update(f"{len(path)}:{path}:{bool(executable)}:".encode("utf-8", "surrogateescape"))
            length = 0
            while chunk := original.read(_CHUNK_BYTES):
                length += len(chunk)
                self.size_bytes += len(chunk)
                if self.size_bytes > MOST_BYTES:
                    raise KitError(
                        f"{self.source}: holds more than {MOST_BYTES // 1024**2} MB; name a smaller folder"
                    )
                self.digest.update(chunk)
                copy.write(chunk)
            self.digest.update(f":{length}:".encode())
        if executable:
            (self.target / path).chmod(0o755)


def _raise(error: OSError) -> None:
    raise KitError(f"{error.filename}: cannot be read: {error.strerror}") from error
