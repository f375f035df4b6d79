"""The pytest plugin: a real host on the scripted model for the extension under test."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from deerflow.testing.loading import Extension
    from deerflow.testing.scripted_host import ScriptedHost


@pytest.fixture
def deerflow_host(tmp_path: Path) -> Iterator[Callable[..., ScriptedHost]]:
    """Return a function that opens a host with an extension; what it opened is closed after the test.

    `deerflow_host("acme_audit:install", {"limit": 3})` takes what `ScriptedHost` takes.
    """
    # Imported when a test asks for it: this module is loaded at every start of pytest.
    scripted_host = importlib.import_module("deerflow.testing.scripted_host")
    with ExitStack() as stack:

        def open_one(
            extension: Extension | None = None, config: dict[str, Any] | None = None, **options: Any
        ) -> ScriptedHost:
            options.setdefault("home", tmp_path / "deer-flow")
            host: ScriptedHost = scripted_host.ScriptedHost(extension, config, **options)
            stack.callback(host.close)
            return host

        yield open_one
