"""From contributions to placements: order, scope and names; what is wrong costs itself only."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from deerflow_extension_api import (
    AgentBuildContext,
    AgentScope,
    ExtensionData,
    HostPolicySnapshot,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from langchain.agents.middleware import AgentMiddleware, AgentState
from support.agents import agent, run, texts

from deerflow.agents.fold import fold
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.placement import Placements, collect_placements

LEAD = AgentBuildContext(AgentScope.LEAD, policy=HostPolicySnapshot(max_subagents_per_run=3))
SUBAGENT = AgentBuildContext(AgentScope.SUBAGENT)


class Named(AgentMiddleware):
    def __init__(self, label: str = "") -> None:
        self.label = label

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"messages": [("user", self.label)]} if self.label else None


class Contributor(MiddlewareContributor):
    def __init__(self, *placements: Any) -> None:
        self.placements: Any = list(placements)
        self.asked: list[Any] = []

    def contribute_middlewares(self, app_store: ExtensionData, ctx: AgentBuildContext) -> Sequence[Any]:
        self.asked.append((app_store, ctx))
        returned: Sequence[Any] = self.placements
        return returned


class Acting(MiddlewareContributor):
    """Runs a function instead."""

    def __init__(self, act: Any) -> None:
        self.contribute_middlewares = lambda app_store, ctx: act()  # type: ignore[method-assign]


def standard(label: str = "", **options: Any) -> MiddlewarePlacement:
    return MiddlewarePlacement(Named(label), Placement.STANDARD, **options)


def loaded(*contributors: Any) -> LoadedExtensions:
    sources = [f"ext{n}:install" for n, _ in enumerate(contributors, 1)]
    return LoadedExtensions(middleware_contributors=tuple(zip(sources, contributors, strict=True)))


def collect(snapshot: LoadedExtensions, ctx: AgentBuildContext = LEAD) -> Placements:
    return collect_placements(snapshot, ctx, hook_timeout_seconds=5)


def labels(middlewares: Any) -> list[str]:
    return [middleware.inner.label for middleware in middlewares]


def said(snapshot: LoadedExtensions) -> list[tuple[str, str]]:
    return [(diagnostic.source, diagnostic.message) for diagnostic in snapshot.diagnostics]


def test_each_placement_has_a_line_of_its_own() -> None:
    snapshot = loaded(Contributor(*(MiddlewarePlacement(Named(p.value), p) for p in Placement)))
    placements = collect(snapshot)
    for placement in Placement:
        assert labels(placements.at(placement)) == [placement.value]
        assert labels(getattr(placements, placement.value)) == [placement.value]
    assert said(snapshot) == []


def test_nothing_contributed_is_nothing_placed() -> None:
    assert collect(LoadedExtensions()) == Placements()


def test_lower_order_stands_further_out_then_registration_counts() -> None:
    first = Contributor(standard("a", order=5), standard("b"), standard("c", order=-1))
    second = Contributor(standard("d"), standard("e", order=-1), standard("f", order=10**30))
    assert labels(collect(loaded(first, second)).standard) == ["c", "e", "b", "d", "a", "f"]


@pytest.mark.parametrize(
    ("ctx", "expected"), [(LEAD, ["lead", "both", "default"]), (SUBAGENT, ["sub", "both", "default"])]
)
def test_scope_decides_for_which_agents(ctx: AgentBuildContext, expected: list[str]) -> None:
    contributor = Contributor(
        standard("lead", scope=AgentScope.LEAD),
        standard("sub", scope=AgentScope.SUBAGENT),
        standard("both", scope=AgentScope.BOTH),
        standard("default"),
    )
    assert labels(collect(loaded(contributor), ctx).standard) == expected


def test_contributors_are_given_app_store_and_context() -> None:
    contributor = Contributor()
    snapshot = loaded(contributor)
    collect(snapshot)
    assert contributor.asked == [(snapshot.app_store, LEAD)]
    assert contributor.asked[0][0] is snapshot.app_store


def test_source_and_inner_of_each_are_known() -> None:
    inner = Named()
    placements = collect(loaded(Contributor(), Contributor(MiddlewarePlacement(inner, Placement.TOOL_RAW))))
    [wrapper] = placements.tool_raw
    origin = placements.origin_of(wrapper)
    assert origin is not None
    assert (origin.source, origin.inner) == ("ext2:install", inner)
    assert placements.origin_of(inner) is None


def test_names_are_safe_unique_and_do_not_depend_on_neighbours() -> None:
    mine = [standard(), standard()]
    alone = collect(loaded(Contributor(*mine)))
    names = [middleware.name for middleware in alone.standard]
    assert names == ["ext_ext1_install_Named", "ext_ext1_install_Named_2"]
    crowded = collect(loaded(Contributor(*mine), Contributor(*(standard() for _ in range(20)))))
    crowded_names = [middleware.name for middleware in crowded.standard]
    assert crowded_names[:2] == names
    assert len(set(crowded_names)) == 22
    odd = type("Mid|dle:wäre " + "x" * 200, (Named,), {})()
    [wrapper] = collect(loaded(Contributor(MiddlewarePlacement(odd, Placement.STANDARD)))).standard
    assert wrapper.name.isascii() and wrapper.name.replace("_", "").isalnum() and len(wrapper.name) <= 80
    agent(fold([wrapper]))


async def test_an_agent_can_be_built_with_all_of_them_at_once() -> None:
    contributors = [
        Contributor(*(MiddlewarePlacement(Named(f"{n}"), p) for p in Placement)) for n in range(3)
    ]
    placements = collect(loaded(*contributors))
    graph, _ = agent(fold([m for p in Placement for m in placements.at(p)]))
    assert len(texts((await run(graph, "async"))["messages"])) == 1 + 15 + 1


class Lying(Named):
    """Says that it is equal to everything, and that it is nothing."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        return False


class Exploding(Named):
    def __eq__(self, other: object) -> bool:
        raise SystemError("compared")

    def __hash__(self) -> int:
        raise SystemError("hashed")

    def __bool__(self) -> bool:
        raise SystemError("asked")

    def __repr__(self) -> str:
        raise SystemError("shown")

    __str__ = __repr__


@pytest.mark.parametrize("kind", [Lying, Exploding])
def test_comparisons_and_truth_of_foreign_objects_decide_nothing(kind: Any) -> None:
    contributor = Contributor(*(MiddlewarePlacement(kind(str(n)), Placement.STANDARD) for n in range(3)))
    snapshot = loaded(contributor)
    assert labels(collect(snapshot).standard) == ["0", "1", "2"]
    assert said(snapshot) == []


class Hollow:
    """Pretends to be a placement, and fails when it is touched."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return MiddlewarePlacement

    def __getattr__(self, name: str) -> Any:
        raise SystemError("touched")


class Evasive(MiddlewarePlacement):
    def __getattribute__(self, name: str) -> Any:
        raise ValueError("evaded")


def evasive() -> Any:
    return Evasive(Named(), Placement.STANDARD)


class NoTools(AgentMiddleware):
    tools = 5  # type: ignore[assignment]


def reduce_one(value: Any) -> Any:
    return value


class OddState(AgentState[Any]):
    own: Annotated[list[str], reduce_one]


class OddlyReducing(AgentMiddleware):
    state_schema = OddState


BAD = [
    (5, "it is int, expected a MiddlewarePlacement"),
    (None, "it is NoneType, expected a MiddlewarePlacement"),
    (Named(), "it is Named, expected a MiddlewarePlacement"),
    (MiddlewarePlacement, "it is type, expected a MiddlewarePlacement"),
    (Hollow, "it is Hollow, expected a MiddlewarePlacement"),
    (evasive, "evaded"),
    (MiddlewarePlacement(Named(), "standard"), "its placement is str, expected a Placement"),  # type: ignore[arg-type]
    (MiddlewarePlacement(Named(), None), "its placement is NoneType, expected a Placement"),  # type: ignore[arg-type]
    (standard(scope=AgentScope(0)), "its scope is no AgentScope of LEAD, SUBAGENT or BOTH"),
    (standard(scope="lead"), "its scope is no AgentScope of LEAD, SUBAGENT or BOTH"),
    (standard(scope=3), "its scope is no AgentScope of LEAD, SUBAGENT or BOTH"),
    (standard(order=True), "its order is bool, expected an int"),
    (standard(order="1"), "its order is str, expected an int"),
    (standard(order=1.5), "its order is float, expected an int"),
    (standard(order=None), "its order is NoneType, expected an int"),
    (MiddlewarePlacement(Named, Placement.STANDARD), "it is the class Named; contribute an instance of it"),
    (MiddlewarePlacement(5, Placement.STANDARD), "it is int, expected an AgentMiddleware"),
    (MiddlewarePlacement(None, Placement.STANDARD), "it is NoneType, expected an AgentMiddleware"),
    (MiddlewarePlacement(NoTools(), Placement.STANDARD), "its tools are int, expected a list of tools"),
    (
        MiddlewarePlacement(OddlyReducing(), Placement.STANDARD),
        "no agent can be built with it: Invalid reducer signature.",
    ),
]


@pytest.mark.parametrize(("bad", "problem"), BAD)
def test_a_bad_contribution_costs_itself_only(bad: Any, problem: str) -> None:
    bad = bad() if bad in (Hollow, evasive) else bad
    contributor = Contributor(standard("before"), bad, standard("after"))
    snapshot = loaded(contributor, Contributor(standard("neighbour")))
    assert labels(collect(snapshot).standard) == ["before", "after", "neighbour"]
    [(source, message)] = said(snapshot)
    assert source == "ext1:install"
    assert message.startswith(f"middleware 2 of 3 from contribute_middlewares() was skipped: {problem}")


def test_an_object_contributed_twice_stands_once() -> None:
    shared = Named("shared")
    twice = Contributor(
        MiddlewarePlacement(shared, Placement.MODEL_LOGICAL), MiddlewarePlacement(shared, Placement.STANDARD)
    )
    again = Contributor(MiddlewarePlacement(shared, Placement.TOOL_RAW), standard("own"))
    snapshot = loaded(twice, again)
    placements = collect(snapshot)
    assert labels(placements.model_logical) == ["shared"]
    assert labels(placements.standard) == ["own"]
    assert placements.tool_raw == ()
    problem = "this Named object stands in the agent already; contribute another"
    assert [message.rpartition(": ")[2] for _, message in said(snapshot)] == [problem] * 2


def test_an_object_for_lead_and_subagents_apart_may_be_the_same() -> None:
    shared = Named("shared")
    contributor = Contributor(
        MiddlewarePlacement(shared, Placement.MODEL_LOGICAL, AgentScope.LEAD),
        MiddlewarePlacement(shared, Placement.STANDARD, AgentScope.SUBAGENT),
    )
    snapshot = loaded(contributor)
    assert labels(collect(snapshot).model_logical) == ["shared"]
    assert labels(collect(snapshot, SUBAGENT).standard) == ["shared"]
    assert said(snapshot) == []


def raising() -> Any:
    raise RuntimeError("boom")


def raising_midway() -> Any:
    def placements() -> Any:
        yield standard("half")
        raise RuntimeError("boom")

    return Lazily(placements)


class Lazily(list[Any]):
    """A sequence that makes its items when it is gone through."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __iter__(self) -> Any:
        return self.make()


async def as_coroutine() -> Any:
    return []


def as_generator() -> Any:
    yield standard("generated")


def cancelling() -> Any:
    raise asyncio.CancelledError


def endless() -> Any:
    def placements() -> Any:
        while True:
            yield 5

    return Lazily(placements)


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (raising, "boom"),
        (raising_midway, "boom"),
        (cancelling, "CancelledError"),
        (endless, "it returned more than 256 placements"),
        (as_coroutine, "it returned a coroutine, expected a sequence of MiddlewarePlacement"),
        (as_generator, "it returned a generator, expected a sequence of MiddlewarePlacement"),
        (lambda: 5, "it returned int, expected a sequence of MiddlewarePlacement"),
        (lambda: None, "it returned NoneType, expected a sequence of MiddlewarePlacement"),
        (lambda: "text", "it returned str, expected a sequence of MiddlewarePlacement"),
        (lambda: {"a": standard()}, "it returned dict, expected a sequence of MiddlewarePlacement"),
        (lambda: standard(), "it returned MiddlewarePlacement, expected a sequence of MiddlewarePlacement"),
    ],
)
def test_a_contributor_that_fails_costs_its_own_contributions_only(act: Any, problem: str) -> None:
    snapshot = loaded(Contributor(standard("before")), Acting(act), Contributor(standard("after")))
    assert labels(collect(snapshot).standard) == ["before", "after"]
    assert said(snapshot) == [("ext2:install", f"contribute_middlewares() failed: {problem}")]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_process_goes_through(error: Any) -> None:
    def ending() -> Any:
        raise error

    with pytest.raises(error):
        collect(loaded(Acting(ending)))


async def test_a_real_cancellation_goes_through() -> None:
    async def cancelled() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        collect(loaded(Acting(cancelling)))

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(cancelled())


def test_a_slow_contributor_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deerflow.extensions.diagnostics.SLOW_CALL_SECONDS", 0.01)

    def slow() -> Any:
        time.sleep(0.03)
        return [standard("slow")]

    with caplog.at_level(logging.WARNING):
        assert labels(collect(loaded(Acting(slow))).standard) == ["slow"]
    assert "Extension ext1:install: contribute_middlewares() took" in caplog.text


async def test_failures_at_run_time_reach_the_diagnostics_of_the_snapshot() -> None:
    class Failing(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            raise RuntimeError("boom")

    snapshot = loaded(Contributor(MiddlewarePlacement(Failing(), Placement.MODEL_PHYSICAL)))
    graph, _ = agent(fold(collect(snapshot).model_physical))
    await run(graph, "async")
    assert said(snapshot) == [("ext1:install", "Failing.awrap_model_call failed and was skipped: boom")]
