"""A Task: typed input and output, synchronous steps, a published file.

It stands in a module of its own because a worker process imports it by name.
"""

import csv
from collections import Counter

from axonx import BaseInputParams, BaseOutputParams, BaseTask, provider
from axonx.task import TaskType


class CountWordsInput(BaseInputParams):
    text: str


class CountWordsOutput(BaseOutputParams):
    words: int
    most_frequent: str


@provider("count_words")
class CountWordsTask(BaseTask):
    """Count the words of a text and publish a table of them."""

    task_type = TaskType.ANALYSIS
    input_cls = CountWordsInput
    output_cls = CountWordsOutput

    def build_task_steps(self):
        return [self.count, self.write_table]

    def count(self):
        words = self.input_params.text.lower().split()
        self.state["counts"] = Counter(words)
        self.logger.info("counted %d words", len(words))

    def write_table(self):
        path = self.task_dir / "words.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(self.state["counts"].most_common())
        self.publish_artifact("words", path, media_type="text/csv")

    def build_output_params(self):
        counts = self.state["counts"]
        return CountWordsOutput(words=counts.total(), most_frequent=counts.most_common(1)[0][0])
