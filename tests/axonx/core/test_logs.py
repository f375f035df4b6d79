"""Each Application logs for itself and leaves the process's logging alone."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import step_app

from axonx import Application, BaseStep


async def say(step: BaseStep) -> None:
    step.logger.info("said %s", step.context["word"])


def logging_app(tmp_path: Path, name: str, **config: Any) -> Application:
    return step_app(tmp_path / "workspace", say, app_name=name, log_dir=tmp_path / "logs", **config)


async def test_the_process_sees_what_it_asks_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with logging_app(tmp_path, "one") as app:
        await app.run_job("job", {"word": "nothing"})
        caplog.set_level(logging.INFO)
        await app.run_job("job", {"word": "hello"})
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("axonx.one.step.step0", "said hello")
    ]
    assert not (tmp_path / "logs").exists()


async def test_two_applications_write_two_files(tmp_path: Path) -> None:
    handlers = list(logging.getLogger().handlers), list(logging.getLogger("axonx").handlers)
    one, two = (
        logging_app(tmp_path, name, log_to_file=True, timezone="Asia/Tokyo") for name in ("One", "Two")
    )
    async with one, two:
        await one.run_job("job", {"word": "first"})
        await two.run_job("job", {"word": "second"})
        await one.run_job("job", {"word": "third"})
    await one.start()
    await one.run_job("job", {"word": "fourth"})
    await one.close()
    first, second = ((tmp_path / "logs" / f"{name}.log").read_text() for name in ("one", "two"))
    assert re.findall(r"said (\w+)", first) == ["first", "third", "fourth"]
    assert re.findall(r"said (\w+)", second) == ["second"]
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+\+09:00 INFO axonx\.One\.step\.step0: said first", first)
    assert (list(logging.getLogger().handlers), list(logging.getLogger("axonx").handlers)) == handlers


async def test_the_console_is_silent_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with logging_app(tmp_path, "quiet") as app:
        await app.run_job("job", {"word": "nothing"})
    assert capsys.readouterr() == ("", "")
    async with logging_app(tmp_path, "loud", log_to_console=True) as app:
        await app.run_job("job", {"word": "hello"})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "INFO axonx.loud.step.step0: said hello" in captured.err


async def test_a_start_that_is_cancelled_at_once_leaves_no_log_open(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    app = logging_app(tmp_path, "brief", log_to_file=True)
    for _ in range(5):
        start = asyncio.create_task(app.start())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        start.cancel()
        await asyncio.wait({start})
        assert start.cancelled()
        assert not app.context.logs.is_open
        assert app.context.logger.handlers == []
    begun = set(threading.enumerate()) - before
    assert [thread.name for thread in begun if "_monitor" in thread.name] == []
