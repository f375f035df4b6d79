"""The configuration file as something that several programs and people change."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from deerflow.config.load import DEFAULT_FILE, PATH_VARIABLE
from deerflow.kit.errors import KitError
from deerflow.kit.plugin_records import PluginsText

LOCK_SECONDS: Final = 30.0
_ATTEMPTS: Final = 5

Change = Callable[[PluginsText], str]


class ConfigFile:
    """One configuration file. `path` is where its bytes are: a link is followed, and stays a link."""

    def __init__(self, path: Path, *, must_exist: bool) -> None:
        self.shown = path
        self.path = path.resolve()
        if path.exists() and not path.is_file():
            raise KitError(f"{path}: is not a file; name a YAML file")
        if must_exist and not path.exists():
            raise KitError(f"{path}: no such file; create it, or name another one")

    def read(self) -> PluginsText:
        """Return what the file says now; a missing one says nothing."""
        return self._parse(self._bytes())

    def edit(self, change: Change) -> bytes | None:
        """Write what `change` makes of the file, and return what it was; None where it was missing.

        One edit at a time, whichever process it comes from. The file is replaced at once and keeps its
        mode. Where somebody else saves it meanwhile, the change is made again on what they saved.
        """
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=LOCK_SECONDS)
        try:
            with lock:
                for _ in range(_ATTEMPTS):
                    before = self._bytes()
                    after = change(self._parse(before)).encode("utf-8")
                    if after == (before or b"") or self._replace(before, after):
                        return before
        except Timeout as error:
            raise KitError(
                f"{self.shown}: another program has been editing it for {LOCK_SECONDS:.0f} s; try again"
            ) from error
        except OSError as error:
            raise KitError(f"{self.shown}: cannot be written: {error.strerror or error}") from error
        raise KitError(f"{self.shown}: was saved by somebody else {_ATTEMPTS} times meanwhile; try again")

    def _bytes(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KitError(f"{self.shown}: cannot be read: {error.strerror}") from error

    def _parse(self, content: bytes | None) -> PluginsText:
        try:
            text = (content or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise KitError(f"{self.shown}: is not in UTF-8 (byte {error.start}); save it in UTF-8") from error
        return PluginsText(text, str(self.shown))

    def _replace(self, before: bytes | None, after: bytes) -> bool:
        """Put `after` in the place of `before`; False, with nothing changed, where it is another text now."""
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(after)
                file.flush()
                os.fsync(file.fileno())
            if before is None:
                return self._create(name)
            _take_over_mode(self.path, name)
            if self._bytes() != before:
                return False
            os.replace(name, self.path)
            return True
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)

    def _create(self, name: str) -> bool:
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        try:
            os.link(name, self.path)
        except FileExistsError:
            return False
        return True


def find_config_file(named: Path | None) -> ConfigFile:
    """Return the file that the host would read: `named`, `DEER_FLOW_CONFIG_PATH`, `config.yaml` here.

    Only the last may be missing. Raises `KitError`.
    """
    path = named or os.environ.get(PATH_VARIABLE)
    return ConfigFile(Path(path) if path else DEFAULT_FILE, must_exist=bool(path))


def _take_over_mode(path: Path, name: str) -> None:
    """Give the new file the old one's mode, and its owner where that is possible."""
    shutil.copymode(path, name)
    status = path.stat()
    with suppress(PermissionError):
        os.chown(name, status.st_uid, status.st_gid)
