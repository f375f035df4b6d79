"""A Dask cluster in processes of its own, for the tests of Tasks: `python -m support.dask_cluster`."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
from distributed import LocalCluster

from axonx.task.runner import worker_environment


@dataclass(frozen=True)
class RunningCluster:
    """`address` of the scheduler, and the process that has it; its workers end with it."""

    address: str
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """End the scheduler at once, and its workers after it."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()


@contextlib.contextmanager
def running_cluster(workers: int, threads: int = 1) -> Iterator[RunningCluster]:
    """A cluster with a process for each worker, ended afterwards."""
    command = [sys.executable, "-m", "support.dask_cluster", str(workers), str(threads)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=worker_environment({}),
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            yield RunningCluster(process.stdout.readline().strip(), process)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(30)
        finally:
            process.kill()


def main() -> None:
    workers, threads = map(int, sys.argv[1:])
    with LocalCluster(
        n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address="127.0.0.1:0"
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
