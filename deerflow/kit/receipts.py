"""What was installed by command, and from where: one small file per distribution under the state folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from deerflow.config.home import find_home
from deerflow.kit.errors import KitError

_RECEIPT: Final = "installed.json"
_LOCK_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Receipt:
    """One installation. `digest` is that of the copied folder, `commit` that of the repository."""

    name: str
    source: str
    version: str
    use: str
    digest: str | None = None
    commit: str | None = None


class ReceiptStore:
    """The folder `extensions` of the host's state: a folder per distribution, with its copies and receipt."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or find_home() / "extensions").absolute()

    @property
    def log(self) -> Path:
        """Where the output of a failed installer goes."""
        return self.folder / "installer.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands from installing meanwhile. Raises `KitError` where one is at it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / ".lock", timeout=_LOCK_SECONDS):
                yield
        except Timeout:
            raise KitError(f"{self.folder}: another command is installing; wait for its end") from None

    def find(self, name: str) -> Receipt | None:
        """The receipt of a distribution; None where it was installed otherwise, or is unreadable."""
        try:
            values: Any = json.loads((self.folder / name / _RECEIPT).read_text(encoding="utf-8"))
            return Receipt(**values)
        except (OSError, ValueError, TypeError):
            return None

    @contextmanager
    def keeping(self, receipt: Receipt) -> Iterator[None]:
        """Write a receipt in the place of the last one, which comes back where the block fails."""
        file = self.folder / receipt.name / _RECEIPT
        before = file.read_bytes() if file.exists() else None
        text = json.dumps(asdict(receipt), ensure_ascii=False, indent=2)
        _write(file, text.encode())
        try:
            yield
        except BaseException:
            if before is None:
                file.unlink(missing_ok=True)
            else:
                _write(file, before)
            raise

    def forget_copies(self, name: str, but: Path | None) -> None:
        """Remove the copies of a distribution, except one."""
        for entry in (self.folder / name).iterdir():
            if entry.is_dir() and entry != but:
                shutil.rmtree(entry, ignore_errors=True)

    def forget(self, name: str) -> None:
        """Remove everything about a distribution."""
        shutil.rmtree(self.folder / name, ignore_errors=True)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", dir=file.parent)
    with os.fdopen(handle, "wb") as new:
        new.write(content)
    os.replace(name, file)
