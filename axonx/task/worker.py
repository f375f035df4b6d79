"""The process that runs one submitted Task: `python -m axonx.task.worker`; it imports only what it needs."""

from __future__ import annotations

import argparse
import faulthandler
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from axonx.task.execute import LOG_FORMAT, ClaimedRun, run_claimed
from axonx.task.interruption import RunSignals, leave_signals_to_children
from axonx.task.process import end_with_parent
from axonx.task.records import TaskRecords
from axonx.task.targets import load_target

# A Task may leave threads behind that never end; then the log shows where they hang.
_LONGEST_EXIT_SECONDS = 15


def main(argv: Sequence[str] | None = None) -> int:
    """Run the Task that the arguments name, from its queued record, and return its exit code."""
    arguments = _parse(argv)
    end_with_parent()
    _prepare_output()
    records = TaskRecords(Path(arguments.workspace))
    record = records.read_run(arguments.task_id, arguments.run_id)
    claimed = ClaimedRun(
        records, record, partial(load_target, arguments.target), record.input_params, logging.NullHandler
    )
    signals = RunSignals(claimed.interruption, record.supervisor.pid)
    leave_signals_to_children()
    with signals.installed():
        signals.check_parent()  # it may have ended before end_with_parent() was there to tell
        execution = run_claimed(claimed)
        if signals.orphaned:
            _end_own_group()
    faulthandler.dump_traceback_later(_LONGEST_EXIT_SECONDS, exit=True)
    return execution.exit_code


def _end_own_group() -> None:
    # Nobody else is left to end what the Task started; a group that others lead is not ours to end.
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m axonx.task.worker")
    parser.add_argument("--workspace", required=True)
    parser.add_argument("--task-id", required=True)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--target", required=True, help="module:qualname of the Task's class")
    return parser.parse_args(argv)


def _prepare_output() -> None:
    # Standard output is the run's log file: a reader follows it line by line, in any locale.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    faulthandler.enable()
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)


if __name__ == "__main__":
    sys.exit(main())
