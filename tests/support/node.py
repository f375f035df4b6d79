"""LangGraph's JavaScript client, installed once outside of the repository."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

SCRIPTS = Path(__file__).parents[1] / "js"
_MANIFESTS = ("package.json", "package-lock.json", ".npmrc")


def client_folder() -> Path:
    """The folder with the installed client; skips, with the reason, where it cannot be had."""
    folder, why_not = _prepared()
    if why_not:
        pytest.skip(why_not)
    return folder


@cache
def _prepared() -> tuple[Path, str]:
    """The folder, and why nothing is in it where that is so."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return Path(), "Node.js and npm are not installed"
    manifests = b"".join((SCRIPTS / name).read_bytes() for name in _MANIFESTS)
    parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deerflow-tests"
    folder = parent / f"js-{hashlib.sha256(manifests).hexdigest()[:16]}"
    parent.mkdir(parents=True, exist_ok=True)
    failure, began = parent / f"{folder.name}.failed", time.time()
    with FileLock(f"{folder}.lock", timeout=300):
        if (folder / "installed").exists():
            return folder, ""
        # A registry that did not answer another process meanwhile is not waited for once more.
        if not failure.exists() or failure.stat().st_mtime < began:
            failure.write_text(_install(folder))
        return folder, failure.read_text()


def run_script(folder: Path, name: str, *arguments: str) -> Any:
    """Run a script of tests/js on the installed client; what it printed, as JSON."""
    script = folder / f"{os.getpid()}-{name}"  # its own: other processes, and other checkouts, run theirs
    shutil.copy(SCRIPTS / name, script)
    command = ["node", script.name, *arguments]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    finally:
        script.unlink()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _install(folder: Path) -> str:
    """Install the client; why that could not be done, where it could not."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in _MANIFESTS:
        shutil.copy(SCRIPTS / name, folder / name)
    command = ["npm", "ci", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=20000"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    # Whether npm's registry answers is not this project's to test.
    except subprocess.TimeoutExpired:
        return "npm did not install LangGraph's JavaScript client within 90 s"
    if done.returncode != 0:
        return f"npm could not install LangGraph's JavaScript client: {done.stderr.strip()[-200:]}"
    (folder / "installed").touch()
    return ""
