from __future__ import annotations

import pytest

from deerflow.models import is_transient


class StatusError(Exception):
    def __init__(self, status_code: object) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class APIConnectionError(Exception):
    """Named as the one in the SDKs of openai and anthropic, and no ConnectionError."""


class ReadTimeout(type("TimeoutException", (Exception,), {})):  # type: ignore[misc]
    """As httpx names it."""


FAILURES = [
    *map(StatusError, (408, 409, 429, 500, 503, 529)),
    *(ConnectionResetError(), TimeoutError(), APIConnectionError(), ReadTimeout()),
]


@pytest.mark.parametrize("error", FAILURES, ids=repr)
def test_failure_of_the_moment_is_transient(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error", [*map(StatusError, (400, 401, 404, "503", None)), ValueError("no")], ids=repr
)
def test_any_other_failure_is_not(error: Exception) -> None:
    assert not is_transient(error)
