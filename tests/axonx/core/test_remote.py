"""Calls with a target: what is refused, and that clients live as long as the Application."""

from __future__ import annotations

from pathlib import Path

import pytest

from axonx import Application
from axonx.core.remote import parse_target
from axonx.errors import NotRunningError, TargetError


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("127.0.0.1:1024", "http://127.0.0.1:1024"),
        ("Host:80", "http://host:80"),
        ("https://h/path/", "https://h/path"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_addresses_have_one_form(target: str, address: str) -> None:
    assert parse_target(target) == address


@pytest.mark.parametrize(
    "target", ["", "host", "ftp://h:1", "h:port", "http://", "http://u:p@h", "h 1:2", "http://h?a=1"]
)
def test_what_is_no_address_is_refused(target: str) -> None:
    with pytest.raises(TargetError, match=r"Invalid target: .*; expected host:port or HTTP\(S\) URL"):
        parse_target(target)


async def test_only_configured_targets_are_called(tmp_path: Path) -> None:
    app = Application(workspace_dir=tmp_path, targets=[{"address": "h:1"}])
    with pytest.raises(NotRunningError):
        await app.run_job("j", target="h:2")
    async with app:
        with pytest.raises(ValueError, match="AxonX target is not configured: 'http://h:2'"):
            await app.run_job("j", target="h:2")
        with pytest.raises(TargetError, match="AxonX target is not configured"):
            app.stream_job("j", target="http://h:2")


def test_a_configured_target_must_be_an_address() -> None:
    with pytest.raises(ValueError, match="Invalid target: 'h'"):
        Application(targets=[{"address": "h"}])
