"""A Task in a worker process: submitted, followed while it runs, and its output read.

python examples/axonx/submit_words.py [TEXT]
"""

import asyncio
import sys
import tempfile

from word_tasks import CountWordsTask

from axonx import Application
from axonx.task.defaults import TASK_COMPONENTS, TASK_JOBS


async def main(text):
    with tempfile.TemporaryDirectory() as directory:
        async with Application(
            providers=(CountWordsTask,),
            workspace_dir=directory,
            components=TASK_COMPONENTS,
            jobs=TASK_JOBS,
        ) as app:
            submitted = await app.run_job("submit", {"task": "count_words", "text": text})
            assert submitted.success, submitted.answer
            task_id = submitted.answer["task_id"]
            steps = {}
            async for event in app.stream_job("stream_task", {"task_id": task_id, "poll_interval": 0.05}):
                if event.kind == "progress":
                    steps[event.name] = event.state
                elif event.kind == "artifact":
                    print("file:", event.path.rpartition("/")[2], event.media_type, event.size, "bytes")
                elif event.kind == "result":
                    print("steps:", steps)
                    output = event.answer["output_params"]
                    print(
                        f"{event.answer['state']}: {output['words']} words, often {output['most_frequent']!r}"
                    )


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["never say never again"])))
