"""Extensions made up on the spot, and a clean process-wide set around every test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from deerflow.extensions import reset_loaded_extensions


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
