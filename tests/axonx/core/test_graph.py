"""Order, missing parts, wrong classes and cycles among dependencies."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.axonx_app import Recorder, recorder, recorder_app, step_app

from axonx import Application, BaseComponent, BaseJob, BaseScheduler, BaseService, BaseStep, provider
from axonx.components.job import JobEvent, ResultEvent
from axonx.core.graph import ComponentGraph, Node, Phase


class Formatter(BaseComponent):
    component_type = "formatter"


class Other(BaseComponent):
    component_type = "formatter"


def chain(tmp_path: Path, needs: dict[str, str], log: list[str] | None = None) -> Application:
    entries = {name: ({"needs": needs[name]} if needs[name] else {}) for name in needs}
    return recorder_app(tmp_path, [] if log is None else log, entries)


async def test_dependencies_start_first_and_the_rest_in_configured_order(tmp_path: Path) -> None:
    log: list[str] = []
    async with chain(tmp_path, {"d": "c", "z": "", "c": "a", "b": "", "a": ""}, log):
        assert log == ["start z", "start b", "start a", "start c", "start d"]
    assert log[5:] == ["close d", "close c", "close a", "close b", "close z"]


@pytest.mark.parametrize(
    ("needs", "path"),
    [
        ({"a": "a"}, "recorder:a -> recorder:a"),
        ({"a": "b", "b": "a"}, "recorder:a -> recorder:b -> recorder:a"),
        (
            {"innocent": "z", "z": "y", "y": "x", "x": "z", "free": ""},
            "recorder:z -> recorder:y -> recorder:x -> recorder:z",
        ),
    ],
)
def test_a_cycle_is_printed_as_a_path_of_its_members(
    tmp_path: Path, needs: dict[str, str], path: str
) -> None:
    log: list[str] = []
    with pytest.raises(ValueError) as caught:
        chain(tmp_path, needs, log)
    assert str(caught.value) == f"Components unresolved due to circular dependencies: {path}"
    assert log == []


class Insisting(BaseComponent):
    component_type = "insisting"

    def __init__(self, needs: str = "other", required: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.depend("formatter", needs, Formatter, required=required)


def insisting_app(tmp_path: Path, formatters: dict[str, Any], **options: Any) -> Application:
    components = {
        "insisting": {"main": {"backend": "insisting", **options}},
        "formatter": formatters,
    }
    providers = [
        provider("insisting")(type("Insists", (Insisting,), {})),
        provider("plain")(type("Plain", (Formatter,), {})),
        provider("other")(type("Others", (Other,), {})),
    ]
    return Application(providers=providers, workspace_dir=tmp_path, components=components)


def test_a_missing_dependency_says_what_is_configured(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="Component insisting:main depends on missing formatter:other"
    ) as caught:
        insisting_app(tmp_path, {"default": {"backend": "plain"}})
    assert "configured under formatter: default" in str(caught.value)


def test_a_missing_optional_dependency_is_none(tmp_path: Path) -> None:
    app = insisting_app(tmp_path, {}, required=False)
    assert app.context.component("insisting", "main").formatter is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("required", [True, False])
def test_an_instance_of_the_wrong_class_is_refused(tmp_path: Path, required: bool) -> None:
    with pytest.raises(TypeError, match="Dependency formatter:other must be a Formatter") as caught:
        insisting_app(tmp_path, {"other": {"backend": "other"}}, required=required)
    assert isinstance(caught.value, ValueError)


def test_an_attribute_that_was_assigned_after_its_declaration_is_refused(tmp_path: Path) -> None:
    @provider("overwrites")
    class Overwrites(Insisting):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(needs="default", **kwargs)
            self.formatter = "mine"

    providers = (Overwrites, provider("plain")(type("Plain", (Formatter,), {})))
    components = {
        "insisting": {"main": {"backend": "overwrites"}},
        "formatter": {"default": {"backend": "plain"}},
    }
    with pytest.raises(ValueError, match=r"'formatter' was assigned after depend\(\)"):
        Application(providers=providers, workspace_dir=tmp_path, components=components)


@provider("needing")
class NeedingJob(BaseJob):
    def __init__(self, needs: str = "a", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.depend("needed", needs, Recorder)

    async def stream(self, arguments: dict[str, Any], system: dict[str, Any]) -> AsyncIterator[JobEvent]:
        yield ResultEvent(answer=self.needed.name)  # type: ignore[attr-defined]


@provider("needing")
class NeedingScheduler(BaseScheduler):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.depend("needed", "a", Recorder)
        self.depend("called", self.job, BaseJob)


@provider("needing")
class NeedingService(BaseService):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.depend("needed", "a", Recorder)


async def test_jobs_schedulers_and_services_are_given_what_they_depend_on(tmp_path: Path) -> None:
    app = Application(
        providers=(recorder([]), NeedingJob, NeedingScheduler, NeedingService),
        workspace_dir=tmp_path,
        components={"recorder": {"a": {"backend": "recorder"}}},
        jobs={"j": {"backend": "needing"}},
        schedules={"s": {"backend": "needing", "job": "j"}},
        service={"backend": "needing"},
    )
    needed = app.context.component("recorder", "a")
    assert app.context.schedulers["s"].needed is needed  # type: ignore[attr-defined]
    assert app.context.schedulers["s"].called is app.context.jobs["j"]  # type: ignore[attr-defined]
    assert app.context.service.needed is needed  # type: ignore[union-attr]
    async with app:
        assert (await app.run_job("j")).answer == "a"


def test_a_job_with_a_missing_dependency_fails_in_the_constructor(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Job j depends on missing recorder:a"):
        Application(providers=(NeedingJob,), workspace_dir=tmp_path, jobs={"j": {"backend": "needing"}})


def test_a_component_cannot_depend_on_what_starts_after_it(tmp_path: Path) -> None:
    @provider("early")
    class Early(BaseComponent):
        component_type = "early"

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.depend("job", "j", BaseJob)

    with pytest.raises(ValueError, match="Component early:main cannot depend on Job j"):
        Application(
            providers=(Early,),
            workspace_dir=tmp_path,
            components={"early": {"main": {"backend": "early"}}},
            jobs={"j": {}},
        )


async def test_a_step_that_asks_for_a_missing_component_fails_with_what_is_configured(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        step.get_component("nope")

    async with step_app(tmp_path, body) as app:
        response = await app.run_job("job")
    assert not response.success
    assert "no component nope:default; configured under nope: nothing" in response.answer


@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))
    )
)
def test_any_graph_is_ordered_or_its_cycle_is_real(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    components = [Formatter(name=str(index)) for index in range(count)]
    for number, (dependant, target) in enumerate(edges):
        components[dependant].depend(f"d{number}", str(target), Formatter)
    nodes = [Node(Phase.COMPONENT, "formatter", str(i), c) for i, c in enumerate(components)]
    try:
        order = [int(node.name) for node in ComponentGraph(nodes).order]
    except ValueError as error:
        path = [int(label.rpartition(":")[2]) for label in str(error).partition(": ")[2].split(" -> ")]
        assert path[0] == path[-1]
        assert set(itertools.pairwise(path)) <= set(edges)
    else:
        assert sorted(order) == list(range(count))
        assert all(order.index(target) < order.index(dependant) for dependant, target in edges)
