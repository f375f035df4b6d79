"""Two interpreters of one Python version: with this AxonX, and with the published package of that name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REFERENCE = "axonx==0.2.2"

_ROOT = Path(__file__).parents[2]
_OURS = ("pydantic", "jsonschema-rs", "cronsim", "filelock", "pyyaml")
_OLDEST_MINOR = 12
_INSTALL_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Environment:
    """An interpreter, and what it needs to find the package."""

    python: str
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, script: Path) -> str:
        """What the script prints; nothing of its folder or of this process's environment is imported."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        command = [self.python, "-P", str(script)]
        done = subprocess.run(
            command, env={**kept, **self.variables}, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout


def environments() -> tuple[Environment, Environment | None]:
    """Ours, and the reference's where it can be installed; the two folders are kept for the next time."""
    source = {"PYTHONPATH": str(_ROOT)}
    python = next(_interpreters(), None)
    if python is None:
        print(f"{REFERENCE} needs Python 3.{_OLDEST_MINOR} or newer, which is not here: ours alone")
        return Environment(sys.executable, source), None
    constraints = ("--constraint", str(_ROOT / "constraints.txt"))
    ours = _installed("ours", python, (*constraints, *_OURS))
    reference = _installed("reference", python, (REFERENCE,))
    if ours is None or reference is None:
        print(f"{REFERENCE} cannot be installed here: ours alone")
        return Environment(ours or sys.executable, source), None
    return Environment(ours, source), Environment(reference)


def _interpreters() -> Iterator[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    names = [f"python3.{minor}" for minor in range(_OLDEST_MINOR, sys.version_info.minor + 3)]
    if sys.version_info.minor >= _OLDEST_MINOR:
        yield sys.executable
    for name in names:
        found = [shutil.which(name), *map(str, pyenv.glob(f"{name[6:]}.*/bin/python"))]
        yield from (python for python in found if python and _answers(python))


def _answers(python: str) -> bool:
    """A version manager's stand-in may be on the path without a Python behind it."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _installed(name: str, python: str, requirements: Sequence[str]) -> str | None:
    """The interpreter of a folder in the user's cache that holds exactly these; `None` where it fails."""
    version = subprocess.run(
        [python, "-c", "import platform; print(platform.python_version())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "axonx-bench"
    folder = cache / f"{name}-{version}"
    own, complete = str(folder / "bin" / "python"), folder / "complete.txt"
    wanted = "\n".join(requirements)
    if complete.is_file() and complete.read_text("utf-8") == wanted:
        return own
    install = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    try:
        for command in ([python, "-m", "venv", "--clear", str(folder)], install):
            subprocess.run(command, capture_output=True, check=True, timeout=_INSTALL_TIMEOUT_SECONDS)
    except (subprocess.SubprocessError, OSError):
        return None
    complete.write_text(wanted, "utf-8")
    return own
