"""Reading public git repositories with the git of this machine, and nothing but reading."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from deerflow.kit.errors import KitError
from deerflow.kit.sources import GitSource

FETCH_SECONDS: Final = 300
_SETTINGS: Final = (
    # Whatever the machine's configuration rewrites URLs to: only https, no account, no hook.
    "protocol.allow=never",
    "protocol.https.allow=always",
    "credential.helper=",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
)


def fetch_repository(source: GitSource, folder: Path) -> str:
    """Check the newest state of `source` out into the empty `folder`, and return its commit.

    Only that one commit is fetched, without submodules. Raises `KitError`.
    """
    git = shutil.which("git")
    if git is None:
        raise KitError(f"{source}: git is not installed; install it, or install a folder")
    command = [git, *(part for setting in _SETTINGS for part in ("-c", setting)), "-C", str(folder)]
    _run(source, [*command, "init", "--quiet"])
    only = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
    _run(source, [*command, "fetch", *only, source.url, source.ref or "HEAD"])
    _run(source, [*command, "checkout", "--quiet", "--detach", "FETCH_HEAD"])
    return _run(source, [*command, "rev-parse", "HEAD"]).strip()


def _run(source: GitSource, command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KitError(f"{source}: git did not end within {FETCH_SECONDS} s; try again") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        reason = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
        raise KitError(f"{source}: git failed: {reason.removeprefix('fatal: ').strip()}")
    return done.stdout


def _environment() -> dict[str, str]:
    """The environment, without what would point git elsewhere or let it ask."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(("GIT_SSL_", "GIT_CONFIG_", "GIT_TRACE"))
    }
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "LC_ALL": "C"}
