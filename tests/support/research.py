"""Tasks that the tests run, here and in worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from axonx.components.registry import provider
from axonx.task import BaseInputParams, BaseOutputParams, BaseTask, TaskStep, TaskType


class WordInput(BaseInputParams):
    word: str = "axon"
    times: int = 1


class WordOutput(BaseOutputParams):
    text: str


@provider("repeat_word")
class RepeatWordTask(BaseTask):
    """Repeat a word.

    The second paragraph is indented in the source.
    """

    task_type = TaskType.ETL
    category = "words"
    input_cls = WordInput
    output_cls = WordOutput
    input_params: WordInput

    def build_task_steps(self) -> Iterator[TaskStep]:
        yield self.repeat
        yield self.publish

    def repeat(self) -> None:
        self.state["text"] = self.input_params.word * self.input_params.times

    def publish(self) -> None:
        (self.task_dir / "out").mkdir()
        (self.task_dir / "out" / "text.txt").write_text(self.state["text"])
        self.publish_artifact("text", "out/text.txt", media_type="text/plain")

    def build_output_params(self) -> WordOutput:
        return WordOutput(text=self.state["text"])


@provider("count_letters")
class CountLettersTask(RepeatWordTask):
    """Count the letters of what the source Task published."""

    task_type = TaskType.ANALYSIS

    def repeat(self) -> None:
        source = self.input_params.source_task(TaskType.ETL)
        self.state["text"] = str(len(self.source_artifact(source, "text").read_text()))


class ActionInput(BaseInputParams):
    action: str
    seconds: float = 60.0


@provider("act")
class ActTask(BaseTask):
    """Do what `action` says, for the tests of workers."""

    input_cls = ActionInput
    input_params: ActionInput

    def build_task_steps(self) -> Iterator[TaskStep]:
        yield getattr(self, self.input_params.action)

    def build_output_params(self) -> BaseOutputParams:
        return BaseOutputParams()

    def close(self) -> None:
        (self.persistent_dir / "closed").touch()

    def on_failure(self, error: BaseException) -> None:
        (self.persistent_dir / "failure").write_text(type(error).__name__)

    def sleep(self) -> None:
        self.started()
        time.sleep(self.input_params.seconds)

    def started(self) -> None:
        (self.persistent_dir / "started").write_text(str(os.getpid()))
        self.logger.info("started")

    def ignore_the_end(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.sleep()

    def fork_and_terminate(self) -> None:
        ready, child_ready = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(child_ready, b"x")
                time.sleep(60)
            finally:
                os._exit(7)
        os.read(ready, 1)
        os.kill(child, signal.SIGTERM)
        print("child ended by", os.WTERMSIG(os.waitpid(child, 0)[1]))

    def swallow_the_end(self) -> None:
        for _ in range(2):
            try:
                self.sleep()
            except BaseException:
                pass

    def start_a_child(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        (self.persistent_dir / "child").write_text(str(child.pid))

    def start_a_child_and_sleep(self) -> None:
        self.start_a_child()
        self.sleep()

    def leave_a_thread(self) -> None:
        threading.Thread(target=time.sleep, args=(self.input_params.seconds,)).start()

    def leave_a_thread_that_waits(self) -> None:
        threading.Thread(target=_wait_for, args=(self.persistent_dir / "go",)).start()

    def leave_at_once(self) -> None:
        os._exit(0)

    def kill_itself(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def print_lines(self) -> None:
        print("first line")
        print("zweite Zeile: größer")
        print("an error line", file=sys.stderr)
        self.logger.info("a logged line")

    def print_many_lines(self) -> None:
        for number in range(200_000):
            print(f"line {number}")

    def count_the_start_and_sleep(self) -> None:
        with open(os.environ["STARTS"], "a") as file:
            file.write("x")
        self.sleep()

    def keep_a_count(self) -> None:
        count, first_only = self.persistent_dir / "count", self.persistent_dir / "deep" / "first"
        if count.exists():
            count.write_text(str(int(count.read_text()) + 1))
            first_only.unlink()
        else:
            count.write_text("1")
            first_only.parent.mkdir()
            first_only.touch()

    def show_environment(self) -> None:
        print("\n".join(sorted(os.environ)))

    def raise_with_a_secret(self) -> None:
        password = "hunter2-in-a-variable"
        raise RuntimeError("no access" if password else "")

    def report_all_the_time(self) -> None:
        self.started()
        deadline = time.monotonic() + self.input_params.seconds
        count = 0
        while time.monotonic() < deadline:
            count += 1
            self.report_progress(name=f"item {count % 50}", completed=count, state="running")
            self.persist_everything()

    def persist_everything(self) -> None:
        self._records.update(
            self.task_id, self.run_id, lambda record: record.with_changes(error="x" * 50_000)
        )


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)
