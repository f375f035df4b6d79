"""What an AxonX package costs, as one line of JSON: seconds on the clock and of CPU for each measure.

A script of the standard library and the `axonx` that its interpreter finds, so that the same text measures
two packages: `python -P axonx_measures.py`.
"""

# ruff: noqa: E402 - the first imports are measured themselves

from __future__ import annotations

import time

_BEGAN = (time.perf_counter(), time.process_time())
# What every application needs; the time of these lines is the first measure.
from axonx import Application, BaseComponent, BaseStep, provider
from axonx.components.job import ProgressEvent

_IMPORTED = (time.perf_counter(), time.process_time())

import asyncio
import gc
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

EVENTS = 100_000
CHAIN = 1000
CONCURRENT = 50

Took = tuple[float, float]


@provider("link")
class Link(BaseComponent):
    component_type = "link"

    def __init__(self, after: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.depend("previous", after, Link, required=False)


@provider("answer")
class Answer(BaseStep):
    async def execute(self) -> None:
        self.response.answer = self.context["text"]


@provider("report")
class Report(BaseStep):
    async def execute(self) -> None:
        for number in range(self.context["count"]):
            await self.emit(ProgressEvent(name="work", completed=number))


def application(folder: str, components: int = 0) -> Application:
    jobs = {
        "one": {"steps": [{"backend": "answer"}]},
        "ten": {"steps": [{"backend": "answer"}] * 10},
        "report": {"steps": [{"backend": "report"}]},
    }
    # Dependants first, so that the order has to be found.
    chain = {
        f"link{number}": {"backend": "link", "after": f"link{number - 1}" if number else None}
        for number in reversed(range(components))
    }
    return Application(
        providers=(Link, Answer, Report),
        workspace_dir=str(Path(folder) / "workspace"),
        log_dir=str(Path(folder) / "logs"),
        log_to_console=False,
        log_to_file=False,
        components={"link": chain} if chain else {},
        jobs=jobs,
    )


async def timed(work: Callable[[], Awaitable[object]]) -> Took:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - wall, time.process_time() - cpu


async def median_of(times: int, work: Callable[[], Awaitable[object]], per: int = 1) -> Took:
    """Medians of so many runs after a tenth of them unmeasured, divided by `per`."""
    for _ in range(max(1, times // 10)):
        await work()
    gc.collect()
    took = [await timed(work) for _ in range(times)]
    wall, cpu = (statistics.median(column) for column in zip(*took, strict=True))
    return wall / per, cpu / per


async def calls(folder: str) -> dict[str, Took]:
    async with application(folder) as app:

        async def run(job: str, times: int) -> None:
            for _ in range(times):
                await app.run_job(job, {"text": "hello"})

        async def together() -> None:
            await asyncio.gather(*(app.run_job("one", {"text": "hello"}) for _ in range(CONCURRENT)))

        async def stream() -> None:
            count = 0
            async for _ in app.stream_job("report", {"count": EVENTS}):
                count += 1
            assert count == EVENTS + 1

        return {
            "one_step": await median_of(20, lambda: run("one", 100), per=100),
            "ten_steps": await median_of(20, lambda: run("ten", 20), per=20),
            "concurrent": await median_of(40, together),
            "stream": await median_of(1, stream),
        }


async def lives(folder: str, components: int, times: int) -> tuple[Took, Took]:
    """Of the constructor, and of start and close."""
    built = []

    async def construct() -> None:
        built[:] = [application(folder, components)]

    async def live() -> None:
        async with built[0]:
            pass

    return await median_of(times, construct), await median_of(times, live)


async def measure() -> dict[str, Any]:
    before = resident_mib()
    found: dict[str, Any] = {"import": tuple(b - a for a, b in zip(_BEGAN, _IMPORTED, strict=True))}
    with tempfile.TemporaryDirectory() as folder:
        found |= await calls(folder)
        found["construct_one"], found["live_one"] = await lives(folder, 1, 20)
        found["construct_chain"], found["live_chain"] = await lives(folder, CHAIN, 10)
    return {**found, "resident_mib": before, "peak_mib": peak_mib()}


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024**2 if sys.platform == "darwin" else 1024
    )


def resident_mib() -> float:
    """What is resident now; the peak so far where there is no /proc."""
    try:
        status = Path("/proc/self/status").read_text("utf-8")
    except OSError:
        return peak_mib()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure())))
