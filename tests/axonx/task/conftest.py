"""What the tests of Tasks share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.dask_cluster import RunningCluster, running_cluster

from axonx.task.records import TaskRecords


@pytest.fixture
def records(tmp_path: Path) -> TaskRecords:
    return TaskRecords(tmp_path / "workspace")


@pytest.fixture(scope="module")
def dask_cluster() -> Iterator[RunningCluster]:
    """Two Dask workers for two Tasks each; not for longer, as they are busy even without a Task."""
    with running_cluster(workers=2, threads=2) as cluster:
        yield cluster


@pytest.fixture
def nothing_leaks() -> Iterator[None]:
    """Fail the test when it leaves processes or file descriptors behind."""
    process = psutil.Process()
    before = {child.pid for child in process.children(recursive=True)}
    descriptors = set(os.listdir("/proc/self/fd"))
    yield
    children = [child for child in process.children(recursive=True) if child.pid not in before]
    assert children == []
    assert len(os.listdir("/proc/self/fd")) <= len(descriptors)
