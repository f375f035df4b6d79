"""Throw every fault at every hook of an extension, and see that nothing but that hook is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from deerflow_extension_api import ExtensionRuntimeDeps

from deerflow.extensions import LoadedExtensions, start_services
from deerflow.extensions.diagnostics import error_text
from deerflow.loop_thread import LoopThread
from deerflow.testing.comparison import Course
from deerflow.testing.faults import FAULTS, Fault
from deerflow.testing.loading import Extension, load_times
from deerflow.testing.problem_log import ProblemLog
from deerflow.testing.scenarios import DELEGATION, Scenario
from deerflow.testing.scripted_host import Limits, ScriptedHost
from deerflow.testing.targets import Target, find_targets

LIMITS: Final = Limits(hook_seconds=0.3, notification_seconds=0.3)
"""What hangs costs the pass this much each time; a healthy hook beside it has to be quicker."""

# A node hook's own changes of the conversation go with it: that is its loss, not the run's.
_MAY_CHANGE: Final = ("messages", "answer")


@dataclass(frozen=True)
class Cell:
    """One fault at one hook. `problems` says what broke besides that hook."""

    hook: str
    fault: str
    verdict: Literal["held", "broke", "not reached"]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conformance:
    """What held. As text: a table of hooks and faults, and a line for everything that broke."""

    cells: tuple[Cell, ...]

    @property
    def held(self) -> bool:
        """Whether nothing broke. A hook that no scenario reaches breaks nothing."""
        return all(cell.verdict != "broke" for cell in self.cells)

    @property
    def broken(self) -> tuple[Cell, ...]:
        """The cells in which something broke."""
        return tuple(cell for cell in self.cells if cell.verdict == "broke")

    def __str__(self) -> str:
        hooks = list(dict.fromkeys(cell.hook for cell in self.cells))
        faults = list(dict.fromkeys(cell.fault for cell in self.cells))
        verdicts = {(cell.hook, cell.fault): cell.verdict for cell in self.cells}
        width = max(map(len, (*hooks, "hook")))
        lines = ["  ".join(["hook".ljust(width), *faults])]
        for hook in hooks:
            row = [verdicts.get((hook, fault), "-").ljust(len(fault)) for fault in faults]
            lines.append("  ".join([hook.ljust(width), *row]).rstrip())
        lines += [f"{cell.hook} {cell.fault}: {problem}" for cell in self.broken for problem in cell.problems]
        return "\n".join(lines)

    def assert_held(self) -> None:
        """Fail with the whole table where anything broke."""
        if not self.held:
            raise AssertionError(f"faults of one hook reached others\n{self}")


def check_conformance(extension: Extension, config: Mapping[str, Any] | None = None) -> Conformance:
    """Throw the faults of `FAULTS` at each hook that the extension has, one at a time, and report what held.

    Each cell loads the extension anew, puts a fault in the place of one hook, and plays a scenario that
    calls it. It held where the run is the usual one and no other hook of the extension complains: one that
    relies on what the failed hook would have prepared does.
    """
    return Conformance(tuple(_Pass(extension, config).cells()))


@dataclass(frozen=True)
class _Outcome:
    courses: tuple[Course, ...]
    problems: tuple[str, ...]


class _Pass:
    """One conformance pass over one extension."""

    def __init__(self, extension: Extension, config: Mapping[str, Any] | None) -> None:
        self._extension = extension
        self._config = config
        self._usual: dict[str, _Outcome] = {}

    def cells(self) -> Iterator[Cell]:
        targets = list(find_targets(self._load()))
        scenarios = {t.scenario.name: t.scenario for t in targets if t.scenario is not None}
        scenarios.setdefault(DELEGATION.name, DELEGATION)
        for scenario in scenarios.values():
            self._usual[scenario.name] = usual = _play(self._load(), scenario)
            yield _judged(f"install(), {scenario}", "no fault", usual.problems)
        yield self._installed_twice()
        for target in targets:
            for fault_name in FAULTS:
                if fault_name in target.faults:
                    yield self._cell(target, Fault(fault_name))

    def _load(self, times: int = 1) -> LoadedExtensions:
        return load_times(self._extension, self._config, times=times)

    def _installed_twice(self) -> Cell:
        outcome = _play(self._load(times=2), DELEGATION)
        changes = _changes(self._usual[DELEGATION.name], outcome)
        return _judged("install()", "is called twice", (*outcome.problems, *changes))

    def _cell(self, target: Target, fault: Fault) -> Cell:
        try:
            return self._thrown(target, fault)
        except Exception as error:  # noqa: BLE001 - whatever comes out of the host here was not contained
            return Cell(target.label, fault.name, "broke", (f"the host failed: {error_text(error)}",))

    def _thrown(self, target: Target, fault: Fault) -> Cell:
        extensions = target.throw(self._load(), fault)
        if target.scenario is None:
            problems, changes = _stop_services(extensions, fault), tuple[str, ...]()
        else:
            outcome = _play(extensions, target.scenario, fault)
            problems = outcome.problems
            changes = _changes(self._usual[target.scenario.name], outcome)
        if not fault.calls:
            return Cell(target.label, fault.name, "not reached")
        others = [line for line in problems if not _is_about(line, target.hook)]
        return _judged(target.label, fault.name, (*others, *changes))


def _judged(hook: str, fault: str, problems: tuple[str, ...]) -> Cell:
    return Cell(hook, fault, "broke" if problems else "held", problems)


def _play(extensions: LoadedExtensions, scenario: Scenario, fault: Fault | None = None) -> _Outcome:
    limits = LIMITS if fault is not None and fault.hangs else Limits()
    with ScriptedHost(extensions, limits=limits) as host:
        courses = tuple(map(Course.of, host.play(scenario)))
        if fault is not None:
            fault.release()
    return _Outcome(courses, host.problems)


def _changes(usual: _Outcome, now: _Outcome) -> tuple[str, ...]:
    return tuple(
        f"the run changed: {line}"
        for before, after in zip(usual.courses, now.courses, strict=True)
        for line in before.differences(after, but=_MAY_CHANGE)
    )


def _is_about(line: str, hook: str) -> bool:
    names = (f"service {hook}()",) if hook in ("start", "stop") else (hook,)
    return any(name in line for name in names)


def _stop_services(extensions: LoadedExtensions, fault: Fault) -> tuple[str, ...]:
    """Start the services and stop them, each within the limit."""

    async def run() -> None:
        deps = ExtensionRuntimeDeps(app_store=extensions.app_store)
        services = await start_services(extensions, deps, stop_timeout_seconds=LIMITS.notification_seconds)
        await services.stop()

    thread = LoopThread("services under test")
    with ProblemLog() as problems:
        try:
            thread.call(run())
            fault.release()
        finally:
            thread.close()
    return problems.lines
