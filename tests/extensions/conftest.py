"""Extensions made up on the spot, and a clean process-wide set around every test."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from deerflow.extensions import dispatch, notify, reset_loaded_extensions


@pytest.fixture(autouse=True)
def _clean_process_wide_set() -> Iterator[None]:
    reset_loaded_extensions()
    yield
    reset_loaded_extensions()


@pytest.fixture
def make_module(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Return a function that makes a module with these attributes importable during the test."""

    def make(name: str, **attributes: Any) -> ModuleType:
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return make


@pytest.fixture
def only_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let timers alone spend a budget: a slow machine keeps no hook before one that hangs from its call."""
    monkeypatch.setattr(dispatch, "monotonic", lambda: 0.0)


@pytest.fixture
def wait_until_called(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Let the host's own limit begin when hooks on another loop, which count their `calls`, are called."""
    begin = notify._start

    def wait_for(hooks: Any) -> None:
        def begin_and_wait(*arguments: Any) -> Any:
            there = begin(*arguments)
            deadline = time.monotonic() + 30
            while not hooks.calls and time.monotonic() < deadline:
                time.sleep(0.001)
            return there

        monkeypatch.setattr(notify, "_start", begin_and_wait)

    return wait_for
