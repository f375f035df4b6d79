"""The Python environment that the host runs in, and the pip or uv that looks after it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from typing import Final, Literal

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from deerflow.kit.errors import KitError

INSTALL_SECONDS: Final = 900
ENTRY_POINT_GROUP: Final = "deerflow.extensions"
_SHOWN_CHARACTERS: Final = 500
_NO_REASONS: Final = ("To fix this you could try", "ERROR: ResolutionImpossible", "[notice]")
_ORNAMENTS: Final = " \t│╰├─▶>×"


@dataclass(frozen=True)
class Environment:
    """One environment and its installer: `command`, what it is to do, then `options`."""

    installer: Literal["pip", "uv"]
    command: tuple[str, ...]
    options: tuple[str, ...]

    def install(self, target: str, name: str, *, upgrade: bool, log: Path) -> None:
        """Install `target`, whose distribution is `name`, and what it needs that is missing.

        No other distribution that is there already is changed: one that would have to be is a `KitError`.
        """
        options = ["--upgrade-package", name] if upgrade and self.installer == "uv" else []
        options += ["--reinstall-package", name] if upgrade and self.installer == "uv" else []
        options += ["--upgrade"] if upgrade and self.installer == "pip" else []
        with self._pins(but=name) as constraints:
            self._run(["install", *options, "--constraint", str(constraints), target], log)

    def uninstall(self, names: Iterable[str], log: Path) -> None:
        """Take distributions away."""
        self._run(["uninstall", *(["--yes"] if self.installer == "pip" else []), *names], log)

    @contextmanager
    def _pins(self, but: str) -> Iterator[Path]:
        """A file that pins everything that is installed, except one distribution."""
        lines = [f"{name}=={version}" for name, version in versions().items() if name != but]
        with tempfile.TemporaryDirectory(prefix="deerflow-") as folder:
            file = Path(folder, "installed.txt")
            file.write_text("\n".join(lines), encoding="utf-8")
            yield file

    def _run(self, arguments: Sequence[str], log: Path) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="deerflow-") as neutral:
                done = subprocess.run(
                    [*self.command, arguments[0], *self.options, *arguments[1:]],
                    cwd=neutral,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    timeout=INSTALL_SECONDS,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            raise KitError(f"{self.installer} did not end within {INSTALL_SECONDS} s; try again") from None
        finally:
            importlib.invalidate_caches()
        if done.returncode != 0:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(done.stdout, encoding="utf-8")
            raise KitError(
                f"{self.installer} {arguments[0]} failed: {_reason(done.stdout)} (all it said is in {log})"
            )


def find_environment() -> Environment:
    """Return the running environment with the installer that it has: uv's own ones use uv, others pip.

    Raises `KitError` where there is neither.
    """
    uv = shutil.which(
        "uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )
    if uv is not None and (_was_made_by_uv() or importlib.util.find_spec("pip") is None):
        return Environment("uv", (uv, "pip"), ("--quiet", "--color=never", "--python", sys.executable))
    if importlib.util.find_spec("pip") is not None:
        options = ("--disable-pip-version-check", "--no-input", "--no-color")
        return Environment("pip", (sys.executable, "-m", "pip"), options)
    raise KitError(
        f"{sys.prefix}: has neither pip nor uv; run `python -m ensurepip` with its Python, or install uv"
    )


def versions() -> dict[str, str]:
    """The version of every distribution that is installed, by its canonical name."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        name, version = distribution.metadata["Name"], distribution.version
        if name and _is_version(version):
            found.setdefault(canonicalize_name(name), version)
    return found


def installed_distribution(name: str) -> metadata.Distribution | None:
    """The distribution of that name, if it is installed."""
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def entry_points_of(name: str) -> list[str]:
    """What a distribution declares as extensions, as `module:attribute`."""
    distribution = installed_distribution(name)
    points = distribution.entry_points.select(group=ENTRY_POINT_GROUP) if distribution is not None else ()
    return sorted({point.value for point in points})


def declared_extensions() -> Mapping[str, tuple[str, str]]:
    """Every extension that an installed distribution declares: entry point → name and version of it."""
    found: dict[str, tuple[str, str]] = {}
    for point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        if point.dist is not None:
            found.setdefault(point.value, (canonicalize_name(point.dist.name), point.dist.version))
    return found


def _was_made_by_uv() -> bool:
    try:
        lines = Path(sys.prefix, "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in lines)


def _is_version(text: str | None) -> bool:
    try:
        Version(text or "")
    except InvalidVersion:
        return False
    return True


def _reason(output: str) -> str:
    """The sentences of an installer's output that say why, on one line."""
    lines = [line.strip(_ORNAMENTS) for line in output.splitlines() if line.strip(_ORNAMENTS)]
    begin = next((i for i, line in enumerate(lines) if line.startswith("ERROR: ")), max(len(lines) - 4, 0))
    said = takewhile(lambda line: not line.startswith(_NO_REASONS), lines[begin:])
    text = " ".join(line.removeprefix("ERROR: ") for line in said) or "it gave no reason"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
