from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from support.task_records import an_ended_process

from axonx.task.process import ProcessIdentity, end_process_group, kill_group, this_process


def sleeper(code: str = "") -> subprocess.Popen[str]:
    code = f"import signal, subprocess, sys, time\n{code}\nprint('up', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_this_process_is_alive():
    assert this_process() == ProcessIdentity.of(os.getpid())
    assert this_process().is_alive()


def test_a_process_that_ended_is_not_alive():
    assert not an_ended_process().is_alive()
    with pytest.raises(ProcessLookupError):
        ProcessIdentity.of(an_ended_process().pid)


def test_a_process_id_that_was_given_out_again_is_another_process():
    assert not ProcessIdentity(pid=os.getpid(), started="boot:1").is_alive()


def test_a_zombie_is_not_alive():
    with sleeper() as process:
        identity = ProcessIdentity.of(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert not identity.is_alive()


def test_a_process_group_is_asked_to_end():
    with sleeper() as process:
        identity = ProcessIdentity.of(process.pid)

        assert end_process_group(identity, 5)
        assert process.wait(60) == -signal.SIGTERM
    assert end_process_group(identity, 5)


def test_a_process_group_that_does_not_listen_is_killed_with_its_children():
    children = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsubprocess.Popen(['sleep', '60'])"
    with sleeper(children) as process:
        (child,) = psutil.Process(process.pid).children()

        assert end_process_group(ProcessIdentity.of(process.pid), 0.05)
        assert process.wait(60) == -signal.SIGKILL
    psutil.wait_procs([child], 5)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_process_never_ends_its_own_group():
    with pytest.raises(ValueError, match="own"):
        kill_group(os.getpgrp())


def test_nothing_happens_to_a_group_that_is_gone():
    began = time.monotonic()

    kill_group(an_ended_process().pid)

    assert time.monotonic() - began < 60
