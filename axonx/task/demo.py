"""The Task that comes with AxonX, to try the machinery with."""

from __future__ import annotations

from collections.abc import Iterator

from axonx.components.registry import provider
from axonx.task.base import BaseTask, TaskStep
from axonx.task.params import BaseInputParams, BaseOutputParams


class DemoTaskInputParams(BaseInputParams):
    """Two numbers; `fail` lets the last step raise."""

    x: int
    y: int
    fail: bool = False


class DemoTaskOutputParams(BaseOutputParams):
    """The sum, and which steps led to it."""

    result: int
    branch: str
    operands: list[str]


@provider("demo")
class DemoTask(BaseTask):
    """Add two numbers, one step for each of them, and publish a small report."""

    input_cls = DemoTaskInputParams
    output_cls = DemoTaskOutputParams
    input_params: DemoTaskInputParams

    def build_task_steps(self) -> Iterator[TaskStep]:
        yield self.initialize
        if self.state["branch"] == "equal":
            yield self.add_equal_operands
        else:
            yield self.add_x
            yield self.add_y
        if self.input_params.fail:
            yield self.fail
        yield self.write_report

    def initialize(self) -> None:
        same = self.input_params.x == self.input_params.y
        self.state.update(result=0, operands=[], branch="equal" if same else "different")

    def add_equal_operands(self) -> None:
        self._add("x", 2 * self.input_params.x)

    def add_x(self) -> None:
        self._add("x", self.input_params.x)

    def add_y(self) -> None:
        self._add("y", self.input_params.y)

    def fail(self) -> None:
        raise RuntimeError("The demo was asked to fail")

    def write_report(self) -> None:
        path = self.task_dir / "report.txt"
        path.write_text(f"{self.input_params.x} + {self.input_params.y} = {self.state['result']}\n")
        self.publish_artifact("report", path, media_type="text/plain")

    def build_output_params(self) -> DemoTaskOutputParams:
        return DemoTaskOutputParams(**self.state)

    def _add(self, operand: str, value: int) -> None:
        self.state["result"] += value
        self.state["operands"].append(operand)
        self.report_progress(50, phase=f"added {operand}")
        self.logger.info("Added %s", operand)
