"""Stores, and how code within a run finds its own."""

from __future__ import annotations

import threading
from collections import UserDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from deerflow_extension_api import EXTENSION_TASK_STORE_KEY, ExtensionData, task_store_from_runtime
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime

THREADS = 8


class Base:
    """A value."""


class Derived(Base):
    """Another value, of another type."""


class Liar:
    """A value that claims to be of another class."""

    __class__ = Base  # type: ignore[assignment]


def run_together(work: Any) -> list[Any]:
    """Call `work(index)` on several threads at once and return what they returned."""
    barrier = threading.Barrier(THREADS, timeout=10)

    def start(index: int) -> Any:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


def test_a_store_knows_its_scope() -> None:
    store = ExtensionData("app")
    assert store.scope_id == "app"
    assert repr(store) == "ExtensionData(scope_id='app')"


def test_an_empty_store_gives_none() -> None:
    store = ExtensionData("app")
    assert store.get(Base) is None
    assert store.remove(Base) is None


def test_a_subclass_is_a_key_of_its_own() -> None:
    store, base, derived = ExtensionData("app"), Base(), Derived()
    store.set(derived)
    assert store.get(Base) is None
    store.set(base)
    assert (store.get(Base), store.get(Derived)) == (base, derived)
    assert store.remove(Base) is base
    assert store.get(Derived) is derived


def test_a_value_is_stored_under_its_real_type() -> None:
    store, liar = ExtensionData("app"), Liar()
    store.set(liar)
    assert store.get(Base) is None
    assert store.get(Liar) is liar


def test_setting_again_replaces_the_value() -> None:
    store = ExtensionData("app")
    store.set("one")
    store.set("two")
    assert store.get(str) == "two"


def test_init_is_called_only_where_nothing_is_stored() -> None:
    store, calls = ExtensionData("app"), []
    store.set("")
    assert store.get_or_init(str, lambda: calls.append(1) or "new") == ""
    assert calls == []


def test_two_stores_share_nothing() -> None:
    one, other = ExtensionData("run"), ExtensionData("run")
    one.set("value")
    assert other.get(str) is None


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_an_init_that_raises_stores_nothing_and_frees_the_store(error: BaseException) -> None:
    store = ExtensionData("app")

    def fail() -> str:
        raise error

    with pytest.raises(type(error)):
        store.get_or_init(str, fail)
    assert store.get(str) is None
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(store.get_or_init, str, lambda: "second").result(timeout=10) == "second"


def test_init_may_use_the_store() -> None:
    store = ExtensionData("app")
    assert store.get_or_init(str, lambda: str(store.get_or_init(int, lambda: 7))) == "7"
    assert store.get(int) == 7


def test_an_init_that_comes_back_for_its_own_type_makes_one_value() -> None:
    store, inner = ExtensionData("app"), []

    def init() -> Base:
        inner.append(store.get_or_init(Base, Base))
        return Base()

    assert store.get_or_init(Base, init) is inner[0] is store.get(Base)


def test_the_store_is_locked_while_init_runs() -> None:
    store, reading, read = ExtensionData("app"), threading.Event(), threading.Event()

    def get() -> None:
        reading.set()
        store.get(int)
        read.set()

    reader = threading.Thread(target=get)

    def init() -> str:
        reader.start()
        assert reading.wait(10)
        assert not read.wait(0.05), "another thread read the store while init ran"
        return "value"

    store.get_or_init(str, init)
    assert read.wait(10)
    reader.join(10)


def test_concurrent_callers_share_one_value() -> None:
    store, created = ExtensionData("app"), []

    def init() -> Base:
        created.append(Base())
        return created[-1]

    values = run_together(lambda index: store.get_or_init(Base, init))
    assert len(created) == 1
    assert set(values) == set(created)


def test_each_value_is_removed_by_exactly_one_thread() -> None:
    store, created = ExtensionData("app"), []

    def init() -> Base:
        created.append(Base())
        return created[-1]

    def work(index: int) -> list[Base | None]:
        removed = []
        for _ in range(200):
            store.get_or_init(Base, init)
            removed.append(store.remove(Base))
        return removed

    removed = [value for values in run_together(work) for value in values if value is not None]
    assert len(removed) == len(set(removed)) == len(created)
    assert store.get(Base) is None


def test_values_of_different_threads_stay_apart() -> None:
    store = ExtensionData("app")
    kinds = [type(f"Own{index}", (Base,), {}) for index in range(THREADS)]

    def work(index: int) -> bool:
        for _ in range(200):
            value = kinds[index]()
            store.set(value)
            if store.get(kinds[index]) is not value:
                return False
        return True

    assert all(run_together(work))


VALUES = st.one_of(st.integers(), st.text(max_size=3), st.booleans(), st.none(), st.builds(Derived))
STEPS = st.tuples(st.sampled_from(["set", "get", "remove", "get_or_init"]), VALUES)


@given(st.lists(STEPS, max_size=30))
def test_a_store_behaves_as_a_dictionary_by_type(steps: list[tuple[str, Any]]) -> None:
    store, model = ExtensionData("app"), {}
    for step, value in steps:
        typ = type(value)
        match step:
            case "set":
                store.set(value)
                model[typ] = value
            case "get":
                assert store.get(typ) is model.get(typ)
            case "remove":
                assert store.remove(typ) is model.pop(typ, None)
            case _:
                assert store.get_or_init(typ, lambda value=value: value) is model.setdefault(typ, value)


@pytest.mark.parametrize("mapping", [dict, UserDict, MappingProxyType], ids=lambda kind: kind.__name__)
def test_the_task_store_is_found_in_any_mapping(mapping: Any) -> None:
    store = ExtensionData("run")
    runtime = SimpleNamespace(context=mapping({EXTENSION_TASK_STORE_KEY: store}))
    assert task_store_from_runtime(runtime) is store


def test_a_node_finds_the_store_in_langgraph_s_runtime() -> None:
    store, found = ExtensionData("run"), []

    def node(state: dict[str, Any], runtime: Runtime[dict[str, Any]]) -> dict[str, Any]:
        found.append(task_store_from_runtime(runtime))
        return {}

    graph = StateGraph(dict, context_schema=dict)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    graph.compile().invoke({}, context={EXTENSION_TASK_STORE_KEY: store})
    assert found == [store]


def test_a_tool_finds_the_store_in_its_runtime() -> None:
    store = ExtensionData("run")
    runtime = ToolRuntime(
        state={},
        context={EXTENSION_TASK_STORE_KEY: store},
        config={},
        stream_writer=lambda chunk: None,
        tool_call_id="call",
        store=None,
    )
    assert task_store_from_runtime(runtime) is store


class HostileMapping(dict):
    def __getitem__(self, key: Any) -> Any:
        raise RuntimeError("no reading")

    get = __getitem__


class HostileRuntime:
    @property
    def context(self) -> Any:
        raise RuntimeError("no context")


class HostileValue:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


@pytest.mark.parametrize(
    "runtime",
    [
        None,
        "text",
        object(),
        {"context": {}},
        SimpleNamespace(context=None),
        SimpleNamespace(context="text"),
        SimpleNamespace(context=[ExtensionData("run")]),
        SimpleNamespace(context={}),
        SimpleNamespace(context={EXTENSION_TASK_STORE_KEY: None}),
        SimpleNamespace(context={EXTENSION_TASK_STORE_KEY: {"scope_id": "run"}}),
        SimpleNamespace(context={EXTENSION_TASK_STORE_KEY: ExtensionData}),
        SimpleNamespace(context={EXTENSION_TASK_STORE_KEY: HostileValue()}),
        SimpleNamespace(context=HostileMapping()),
        HostileRuntime(),
        Runtime(),
    ],
    ids=lambda runtime: type(runtime).__name__,
)
def test_without_a_live_task_there_is_no_store(runtime: Any) -> None:
    assert task_store_from_runtime(runtime) is None


def test_looking_for_the_store_leaves_the_context_as_it_is() -> None:
    context: defaultdict[str, str] = defaultdict(str)
    assert task_store_from_runtime(SimpleNamespace(context=context)) is None
    assert context == {}
