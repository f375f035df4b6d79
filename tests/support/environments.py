"""Throw-away Python environments that see this one's packages, and distributions to install in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMMAND: Final = "import sys; from deerflow.cli import main; main(sys.argv[1:])"
INSTALLERS: Final = ("pip", "uv")


@dataclass(frozen=True)
class ThrowAway:
    """An environment with an empty working folder. Its installer never leaves this machine."""

    python: Path
    work: Path
    installer: str

    def deerflow(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command line in the working folder."""
        return self.run("-P", "-c", COMMAND, *arguments, **variables)

    def extensions(self, *arguments: str, **variables: str) -> str:
        """Run `deerflow extensions`, which has to succeed; what it printed."""
        done = self.deerflow("extensions", *arguments, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refused(self, *arguments: str, status: int = 1, **variables: str) -> str:
        """Run `deerflow extensions`, which has to fail with one line; that line."""
        done = self.deerflow("extensions", *arguments, **variables)
        assert done.returncode == status, done.stdout + done.stderr
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("deerflow: ")]
        return line

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the working folder."""
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=self.work,
            env=self._variables() | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """The command line while it runs in the working folder; ended at the latest with the block."""
        # Where the tests run in the background, SIGINT is ignored, and a child would inherit that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        process = subprocess.Popen(
            [str(self.python), "-P", "-c", COMMAND, *arguments],
            cwd=self.work,
            env=self._variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        signal.signal(signal.SIGINT, before)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def site(self) -> set[str]:
        """What is installed in this environment itself."""
        return {path.name for path in self._site_packages().iterdir() if path.name != "__pycache__"}

    def _site_packages(self) -> Path:
        return next(self.python.parent.parent.glob("lib/python*/site-packages"))

    def _variables(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "UV_", "DEER_FLOW_", "PYTHON", "VIRTUAL_ENV"))
        }
        return kept | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this one the other way round
            "UV_NO_INDEX": "1",
            "UV_OFFLINE": "1",
            "UV_NO_BUILD_ISOLATION": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def throw_away(folder: Path, installer: str) -> ThrowAway:
    """Make an environment as `installer` would have made it, without a copy of the packages of this one."""
    home, work = folder / f"environment-{installer}", folder / "work"
    venv.create(home, symlinks=True)
    if installer == "uv":
        with (home / "pyvenv.cfg").open("a") as file:
            file.write("uv = 0.0.0\n")
    work.mkdir()
    made = ThrowAway(home / "bin" / "python", work, installer)
    seen = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (made._site_packages() / "host.pth").write_text(seen)
    return made


def write_distribution(
    folder: Path,
    name: str,
    *,
    version: str = "1.0",
    install: str = "registry.service(Service())",
    entry_point: bool = True,
    requires: str = "",
) -> Path:
    """Write or rewrite the distribution of an extension with one module; its folder."""
    module = name.replace("-", "_")
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"',
        f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = [{requires}]',
        f'[tool.hatch.build.targets.wheel]\nonly-include = ["{module}.py"]',
    ]
    if entry_point:
        lines.append(f'[project.entry-points."deerflow.extensions"]\nmain = "{module}:install"')
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n")
    (folder / f"{module}.py").write_text(
        f"VERSION = {version!r}\n\n\nclass Service:\n"
        "    async def start(self, deps):\n        pass\n\n    async def stop(self):\n        pass\n\n\n"
        f"def install(registry, config):\n    {install}\n"
    )
    return folder


def build_wheel(folder: Path, into: Path) -> None:
    """Build the wheel of a distribution."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
