"""What the dry run says of extensions is what a host says that starts with them, and runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.gateways import serving
from support.hosts import DELEGATE_TWICE, scripted_config

from deerflow.extensions import reset_loaded_extensions
from deerflow.gateway.app import create_app
from deerflow.kit.check import check_extensions
from deerflow.kit.check_report import Fate

FOLDER = Path(__file__).parent / "broken"
ENDING_THE_PROCESS = {"import_exits", "install_exits"}
"""No host starts with these."""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    reset_loaded_extensions()
    for name in [path.stem for path in FOLDER.glob("*.py")]:
        sys.modules.pop(name, None)


async def test_a_start_and_a_run_show_nothing_that_was_not_foretold(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uses = [
        f"{path.stem}:install" for path in sorted(FOLDER.glob("*.py")) if path.stem not in ENDING_THE_PROCESS
    ]
    config = scripted_config(tmp_path, [DELEGATE_TWICE], plugins=[{"use": use} for use in uses])
    entries = check_extensions(config.plugins).entries
    foretold = {(entry.use, finding.text) for entry in entries for finding in entry.findings}
    caplog.clear()
    app = create_app(config)
    async with serving(app) as client:
        await client.say(await client.thread(), "delegate")
    shown = {(entry.source, entry.message) for entry in app.state.extension_diagnostics}
    # A service whose hook cannot be called is reported with the words of the failed call.
    misshapen = {use for use, text in foretold if "; the host calls start" in text}
    failed_calls = {(use, message) for use, message in shown if use in misshapen and "start()" in message}
    assert failed_calls and shown - failed_calls <= foretold, shown - failed_calls - foretold
    logged = {message for message in caplog.messages if message.startswith("Extension ")}
    for entry in entries:
        errors = [finding.text for finding in entry.findings if finding.level == "error"]
        assert (entry.fate is Fate.LOADED) == (errors == [])
        for text in errors:
            # What is wrong with a hook is a line of the log each time that it is called.
            assert (entry.use, text) in shown or any(entry.use in line for line in logged), (entry.use, text)
