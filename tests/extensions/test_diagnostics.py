from __future__ import annotations

import logging
from threading import Thread

import pytest

from deerflow.extensions.diagnostics import (
    Diagnostic,
    DiagnosticLog,
    error_text,
    report,
    report_call,
    type_name,
)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot say")


def test_log_keeps_the_newest_thousand() -> None:
    log = DiagnosticLog()
    for number in range(1005):
        log.append(Diagnostic("error", "acme:install", str(number)))
    assert len(log) == 1000
    assert log[0].message == "5"
    assert log[-1].message == "1004"


def test_log_is_bounded_when_many_threads_append() -> None:
    log = DiagnosticLog()
    diagnostic = Diagnostic("error", "acme:install", "x")
    threads = [Thread(target=lambda: [log.append(diagnostic) for _ in range(600)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log) == 1000


def test_what_fails_at_every_call_is_counted_and_pushes_no_other_out() -> None:
    log = DiagnosticLog()
    report(log, "error", "acme:install", "install() failed: no")
    for _ in range(1500):
        report_call(log, "warning", "acme:install", "Audit.after_model failed and was skipped: no")
    report_call(log, "warning", "acme:install", "Audit.after_model failed and was skipped: other")
    report_call(log, "warning", "acme:install", "Audit.after_model failed and was skipped: no")
    assert [(one.message, one.count) for one in log] == [
        ("install() failed: no", 1),
        ("Audit.after_model failed and was skipped: other", 1),
        ("Audit.after_model failed and was skipped: no", 1501),
    ]
    first, other, newest = log
    assert first.first_at <= newest.first_at < other.first_at <= newest.last_at


def test_equal_failures_of_two_extensions_are_two() -> None:
    log = DiagnosticLog()
    for source in ("acme:install", "other:install"):
        report_call(log, "warning", source, "Audit.after_model failed and was skipped: no")
    assert [(one.source, one.count) for one in log] == [("acme:install", 1), ("other:install", 1)]


def test_calls_of_many_threads_are_all_counted() -> None:
    log = DiagnosticLog()
    diagnostic = Diagnostic("warning", "acme:install", "x")
    threads = [Thread(target=lambda: [log.tally(diagnostic) for _ in range(600)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.count for one in log] == [2400]


@pytest.mark.parametrize(("level", "number"), [("warning", logging.WARNING), ("error", logging.ERROR)])
def test_report_logs_with_the_entry_and_collects(
    level: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = DiagnosticLog()
    report(log, level, "acme:install", "100% broken")  # type: ignore[arg-type]
    assert log == [Diagnostic(level, "acme:install", "100% broken")]  # type: ignore[arg-type]
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (number, "Extension acme:install: 100% broken")


def test_text_of_an_error_never_fails() -> None:
    assert error_text(ValueError("plain")) == "plain"
    assert error_text(ValueError()) == "ValueError"
    assert error_text(Mute()) == "Mute"


def test_type_name_is_that_of_the_type() -> None:
    assert type_name(Mute()) == "Mute"
    assert type_name(Mute) == "type"
