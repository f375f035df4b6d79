from __future__ import annotations

import pytest

from axonx.task.errors import TaskCancelled, TaskOrphaned
from axonx.task.interruption import Interruption


def test_a_request_inside_of_an_armed_section_is_raised_there():
    interruption = Interruption()

    with pytest.raises(TaskCancelled), interruption.armed():
        interruption.request(TaskCancelled())


def test_a_request_outside_waits_for_the_next_armed_section():
    interruption = Interruption()
    interruption.request(TaskCancelled())

    with pytest.raises(TaskCancelled), interruption.armed():
        raise AssertionError("the section must not run")


def test_a_second_request_does_not_interrupt_the_clean_up():
    interruption = Interruption()

    with pytest.raises(TaskCancelled), interruption.armed():
        try:
            interruption.request(TaskCancelled())
        finally:
            interruption.request(TaskOrphaned())


def test_a_section_without_request_ends_normally():
    interruption = Interruption()

    with interruption.armed():
        pass
    interruption.request(TaskCancelled())
