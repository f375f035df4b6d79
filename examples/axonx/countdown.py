"""A Job with a stream of its own, read to its end and left early.

python examples/axonx/countdown.py [START]
"""

import asyncio
import sys
import tempfile
from contextlib import aclosing

from axonx import Application, BaseJob, provider
from axonx.components.job import ProgressEvent, ResultEvent

PARAMETERS = {
    "type": "object",
    "properties": {"start": {"type": "integer", "minimum": 1}},
    "required": ["start"],
    "additionalProperties": False,
}


@provider("countdown")
class Countdown(BaseJob):
    def __init__(self, interval_seconds=0.01, **kwargs):
        super().__init__(**kwargs)
        self.interval_seconds = interval_seconds

    async def stream(self, arguments, system):
        start = arguments["start"]
        try:
            for done in range(start):
                yield ProgressEvent(name="countdown", completed=done, total=start, state="running")
                await asyncio.sleep(self.interval_seconds)
            yield ResultEvent(answer="lift-off")
        finally:
            print("the pad is cleared")


async def main(start):
    job = {"backend": "countdown", "interval_seconds": 0.001, "parameters": PARAMETERS}
    with tempfile.TemporaryDirectory() as directory:
        async with Application(providers=(Countdown,), workspace_dir=directory, jobs={"launch": job}) as app:
            response = await app.run_job("launch", {"start": start})
            print(response.answer)

            # aclosing waits until the Job has cleaned up; without it the Job is cancelled all the same.
            async with aclosing(app.stream_job("launch", {"start": start})) as events:
                async for event in events:
                    print(f"{event.completed} of {event.total}")
                    if event.completed == 1:
                        break
            print("left early")

            try:
                await app.run_job("launch", {"start": 0})
            except ValueError as error:
                print(error)


if __name__ == "__main__":
    asyncio.run(main(int(*(sys.argv[1:] or ["3"]))))
