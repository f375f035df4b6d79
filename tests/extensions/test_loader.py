from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from deerflow_extension_api import API_VERSION, extension

from deerflow.extensions import (
    Diagnostic,
    ExtensionLoadError,
    ExtensionSpec,
    LoadedExtensions,
    TablePrefixError,
    diagnostics,
    get_loaded_extensions,
    load_extensions,
    reset_loaded_extensions,
    set_loaded_extensions,
)

ACME = ExtensionSpec(use="acme:install")


class Anything:
    """Has every hook, so that it can be registered as any kind."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __bool__(self) -> bool:
        raise AssertionError("the truthiness of an extension's object was asked")

    def contribute_middlewares(self, app_store: Any, ctx: Any) -> tuple[()]:
        return ()

    async def on_task_start(self, *arguments: Any) -> None: ...

    async def on_system_model_call(self, *arguments: Any) -> None: ...

    async def on_context_compacted(self, *arguments: Any) -> None: ...

    def on_agent_assembled(self, *arguments: Any) -> None: ...

    async def start(self, deps: Any) -> None: ...


def register_everything(registry: Any, name: str = "") -> None:
    thing = Anything(name)
    registry.middlewares(thing)
    registry.task_lifecycle(thing)
    registry.system_model_observer(thing)
    registry.agent_assembly_observer(thing)
    registry.context_compaction_observer(thing)
    registry.service(thing)
    registry.routers([thing, thing])


def sources(loaded: LoadedExtensions) -> dict[str, list[str]]:
    kinds = (
        "middleware_contributors",
        "task_lifecycle",
        "system_model_observers",
        "agent_assembly_observers",
        "context_compaction_observers",
        "services",
        "routers",
    )
    return {kind: [source for source, _ in getattr(loaded, kind)] for kind in kinds}


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_nothing_to_load_gives_an_empty_set_and_no_summary(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    loaded, found = load_extensions([])
    assert not loaded.needs_task_store
    assert found == []
    assert loaded.app_store.scope_id == "app"
    assert messages(caplog) == []


def test_contributions_keep_list_order_and_name_their_entry(make_module: Callable[..., Any]) -> None:
    make_module("zeta", install=lambda registry, config: register_everything(registry))
    make_module("acme", install=lambda registry, config: register_everything(registry))
    loaded, found = load_extensions([ExtensionSpec(use="zeta:install"), ACME])
    for kind, names in sources(loaded).items():
        twice = 2 if kind == "routers" else 1
        assert names == ["zeta:install"] * twice + ["acme:install"] * twice
    assert found == []
    assert loaded.needs_task_store


def test_summary_counts_disabled_and_failed_entries_in_the_total(
    make_module: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    make_module("acme", install=lambda registry, config: None)
    make_module("costs", install=lambda registry, config: None)
    specs = [
        ACME,
        ExtensionSpec(use="off:install", enabled=False),
        ExtensionSpec(use="no_such_module_here:install"),
        ExtensionSpec(use="costs:install"),
    ]
    load_extensions(specs)
    assert messages(caplog)[-1] == "Extensions loaded: 2/4 (acme:install, costs:install)"


def test_summary_says_none_where_nothing_loaded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    load_extensions([ExtensionSpec(use="off:install", enabled=False)])
    assert messages(caplog) == ["Extensions loaded: 0/1 (none)"]


def test_disabled_entry_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_untouched.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    spec = ExtensionSpec(use="acme_untouched:install", enabled=False, table_prefix="acme_")
    loaded, found = load_extensions([spec])
    assert found == []
    assert "acme_untouched" not in sys.modules
    assert loaded.table_prefixes.owns("acme_calls")


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        ("no_such_module_here:install", "No module named 'no_such_module_here'"),
        ("acme:missing", "module 'acme' has no attribute 'missing'"),
        ("acme", "'acme' is not of the form 'module.path:attribute'"),
        ("acme:", "'acme:' is not of the form 'module.path:attribute'"),
        (":install", "':install' is not of the form 'module.path:attribute'"),
        (".acme:install", "'.acme:install' is not of the form 'module.path:attribute'"),
    ],
)
def test_what_cannot_be_resolved_is_skipped(
    use: str, reason: str, make_module: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    make_module("acme", install=lambda registry, config: None)
    _, found = load_extensions([ExtensionSpec(use=use)])
    message = f"could not resolve extension entry point: {reason}"
    assert found == [Diagnostic("error", use, message)]
    assert messages(caplog) == [f"Extension {use}: {message}"]


@pytest.mark.parametrize(
    "body",
    ["raise RuntimeError('broken')", "raise BaseException('broken')", "def ("],
    ids=["exception", "base exception", "syntax error"],
)
def test_module_that_fails_at_import_is_skipped(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "acme_broken.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    _, found = load_extensions([ExtensionSpec(use="acme_broken:install")])
    assert len(found) == 1
    assert found[0].message.startswith("could not resolve extension entry point: ")


def test_attribute_path_may_have_several_parts(make_module: Callable[..., Any]) -> None:
    make_module("acme", audit=SimpleNamespace(install=lambda registry, config: register_everything(registry)))
    loaded, _ = load_extensions([ExtensionSpec(use="acme:audit.install")])
    assert len(loaded.services) == 1


def test_entry_point_must_be_callable(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=7)
    _, found = load_extensions([ACME])
    assert found == [Diagnostic("error", "acme:install", "extension entry point is not callable: int")]


def test_failed_install_leaves_nothing_and_spoils_nobody(
    make_module: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(registry: Any, config: Any) -> None:
        register_everything(registry)
        raise RuntimeError("no database")

    make_module("first", install=lambda registry, config: register_everything(registry))
    make_module("acme", install=broken)
    make_module("last", install=lambda registry, config: register_everything(registry))
    loaded, found = load_extensions(
        [ExtensionSpec(use="first:install"), ACME, ExtensionSpec(use="last:install")]
    )
    for names in sources(loaded).values():
        assert set(names) == {"first:install", "last:install"}
    assert found == [Diagnostic("error", "acme:install", "install() failed: no database")]
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "Extension acme:install: install() failed: no database"
    assert record.exc_info is not None


@pytest.mark.parametrize("failing", [0, 1])
def test_failing_twin_keeps_the_other_instance_whole(failing: int, make_module: Callable[..., Any]) -> None:
    def install(registry: Any, config: dict[str, Any]) -> None:
        register_everything(registry, config["name"])
        registry.service(Anything(config["name"]))
        if config["fail"]:
            raise RuntimeError

    make_module("acme", install=install)
    specs = [
        ExtensionSpec(use="acme:install", config={"name": str(index), "fail": index == failing})
        for index in range(2)
    ]
    loaded, found = load_extensions(specs)
    assert [service.name for _, service in loaded.services] == [str(1 - failing)] * 2
    assert [item.name for _, item in loaded.routers] == [str(1 - failing)] * 2
    assert found == [Diagnostic("error", "acme:install", "install() failed: RuntimeError")]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_interrupt_and_exit_out_of_install_propagate(
    stop: type[BaseException], make_module: Callable[..., Any]
) -> None:
    kept = []

    def install(registry: Any, config: Any) -> None:
        kept.append(registry)
        registry.service(Anything())
        raise stop

    make_module("acme", install=install)
    with pytest.raises(stop):
        load_extensions([ACME])


@pytest.mark.parametrize("stop", ["KeyboardInterrupt", "SystemExit"])
def test_interrupt_and_exit_out_of_an_import_propagate(
    stop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_exits.py").write_text(f"raise {stop}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        load_extensions([ExtensionSpec(use="acme_exits:install")])


def raise_cancelled(registry: Any, config: Any) -> None:
    raise asyncio.CancelledError


def test_cancelled_error_of_an_install_is_a_failed_install(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=raise_cancelled)
    _, found = load_extensions([ACME])
    assert [diagnostic.message for diagnostic in found] == ["install() failed: CancelledError"]


async def test_cancelled_error_of_an_install_inside_a_task_is_a_failed_install(
    make_module: Callable[..., Any],
) -> None:
    make_module("acme", install=raise_cancelled)
    _, found = load_extensions([ACME])
    assert len(found) == 1


async def test_cancellation_of_the_host_during_loading_propagates(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=raise_cancelled)

    async def host() -> None:
        asyncio_task = asyncio.current_task()
        assert asyncio_task is not None
        asyncio_task.cancel()
        load_extensions([ACME])

    asyncio_task = asyncio.create_task(host())
    with pytest.raises(asyncio.CancelledError):
        await asyncio_task


async def _async_install(registry: Any, config: Any) -> None:
    raise AssertionError("its body must never run")


def _generator_install(registry: Any, config: Any) -> Any:
    raise AssertionError("its body must never run")
    yield


async def _async_generator_install(registry: Any, config: Any) -> Any:
    raise AssertionError("its body must never run")
    yield


class _Awaitable:
    def __await__(self) -> Any:
        raise AssertionError("it must never be awaited")


@pytest.mark.parametrize(
    ("install", "what"),
    [
        (_async_install, "a coroutine"),
        (_generator_install, "a generator"),
        (_async_generator_install, "an asynchronous generator"),
        (lambda registry, config: _Awaitable(), "an awaitable _Awaitable"),
    ],
)
def test_install_must_be_a_plain_function(install: Any, what: str, make_module: Callable[..., Any]) -> None:
    make_module("acme", install=install)
    _, found = load_extensions([ACME])
    message = f"install() must be a plain function; it returned {what}"
    assert found == [Diagnostic("error", "acme:install", message)]


async def test_asyncio_task_that_install_returned_is_cancelled(make_module: Callable[..., Any]) -> None:
    tasks: list[asyncio.Task[None]] = []

    def install(registry: Any, config: Any) -> asyncio.Task[None]:
        tasks.append(asyncio.ensure_future(_async_install(registry, config)))
        return tasks[0]

    make_module("acme", install=install)
    _, found = load_extensions([ACME])
    assert found[0].message == "install() must be a plain function; it returned an awaitable Task"
    await asyncio.wait(tasks)
    assert tasks[0].cancelled()


def test_value_that_install_returns_is_ignored(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=lambda registry, config: Anything())
    _, found = load_extensions([ACME])
    assert found == []


def _unmarked(registry: Any, config: Any) -> None:
    raise ValueError("refused on purpose")


@pytest.mark.parametrize(
    ("use", "problem", "reason"),
    [
        ("gone_module:install", "failed to load", "could not resolve extension entry point: "),
        ("acme:number", "is not callable", "extension entry point is not callable: int"),
        ("acme:invalid", "declares invalid api marker", "extension declares invalid extension-api"),
        ("acme:newer", "declares incompatible api 9.0", "extension requires extension-api 9.0"),
        ("acme:coroutine", "failed to install", "install() must be a plain function"),
        ("acme:install", "failed to install", "install() failed: refused on purpose"),
    ],
)
def test_required_entry_that_fails_stops_the_host(
    use: str, problem: str, reason: str, make_module: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    make_module(
        "acme",
        number=1,
        invalid=extension(api="later")(lambda registry, config: None),
        newer=extension(api="9.0")(lambda registry, config: None),
        coroutine=_async_install,
        install=_unmarked,
    )
    with pytest.raises(ExtensionLoadError) as raised:
        load_extensions([ExtensionSpec(use=use, required=True)])
    assert str(raised.value) == f"required extension {use} {problem}"
    assert raised.value.source == use
    assert raised.value.reason.startswith(reason)
    assert messages(caplog) == [f"Extension {use}: {raised.value.reason}"]


def test_required_error_keeps_its_cause(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=_unmarked)
    with pytest.raises(ExtensionLoadError) as raised:
        load_extensions([ExtensionSpec(use="acme:install", required=True)])
    assert str(raised.value.__cause__) == "refused on purpose"


def test_marker_of_the_contract_is_accepted(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=extension(api=API_VERSION)(lambda registry, config: None))
    assert load_extensions([ACME])[1] == []


def test_host_version_is_a_parameter(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=extension(api="1.2")(lambda registry, config: None))
    assert load_extensions([ACME], api_version="1.3.0")[1] == []
    assert len(load_extensions([ACME], api_version="1.1.0")[1]) == 1


def test_nested_config_belongs_to_one_entry(make_module: Callable[..., Any]) -> None:
    records = yaml.safe_load(
        """
        - use: acme:install
          config: &shared {list: [1], nested: {a: [1]}}
        - use: acme:install
          config: *shared
        """
    )
    seen: list[Any] = []

    def install(registry: Any, config: dict[str, Any]) -> None:
        config["list"].append(2)
        config["nested"]["a"].append(2)
        config["new"] = True
        seen.append(config)

    make_module("acme", install=install)
    specs = [ExtensionSpec.model_validate(record) for record in records]
    load_extensions(specs)
    assert seen == [{"list": [1, 2], "nested": {"a": [1, 2]}, "new": True}] * 2
    assert [spec.config for spec in specs] == [{"list": [1], "nested": {"a": [1]}}] * 2


def test_object_in_the_config_stays_the_same_object(make_module: Callable[..., Any]) -> None:
    marker = object()
    seen: list[Any] = []
    make_module("acme", install=lambda registry, config: seen.append(config["client"]))
    load_extensions([ExtensionSpec(use="acme:install", config={"client": marker})])
    assert seen == [marker]


def test_null_config_is_an_empty_one(make_module: Callable[..., Any]) -> None:
    seen: list[Any] = []
    make_module("acme", install=lambda registry, config: seen.append(config))
    load_extensions([ExtensionSpec.model_validate({"use": "acme:install", "config": None})])
    assert seen == [{}]


def test_registry_that_was_kept_changes_nothing(
    make_module: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[Any] = []
    make_module("acme", install=lambda registry, config: kept.append(registry))
    loaded, found = load_extensions([ACME])
    register_everything(kept[0])
    assert not any(sources(loaded).values())
    assert {diagnostic.source for diagnostic in found} == {"acme:install"}
    assert "registry.service() was called after install() had returned" in caplog.text


def test_registry_of_a_failed_entry_stays_closed(make_module: Callable[..., Any]) -> None:
    kept: list[Any] = []

    def broken(registry: Any, config: Any) -> None:
        kept.append(registry)
        raise RuntimeError

    make_module("acme", install=broken)
    make_module("later", install=lambda registry, config: register_everything(kept[0]))
    loaded, _ = load_extensions([ACME, ExtensionSpec(use="later:install")])
    assert not any(sources(loaded).values())


def test_prefix_that_hides_host_tables_stops_the_host_even_where_optional() -> None:
    spec = ExtensionSpec(use="gone:install", enabled=False, table_prefix="CHECKPOINT_")
    with pytest.raises(TablePrefixError) as raised:
        load_extensions([spec])
    assert isinstance(raised.value, ExtensionLoadError)
    assert str(raised.value) == (
        "extension table_prefix 'CHECKPOINT_' would hide host-owned table(s) "
        "['checkpoint_blobs', 'checkpoint_migrations', 'checkpoint_writes']"
    )


@pytest.mark.parametrize("enabled", [True, False])
def test_prefix_of_a_failing_and_of_a_disabled_entry_is_registered(enabled: bool) -> None:
    record = ExtensionSpec(use="gone_module:install", table_prefix="gone_", enabled=enabled)
    loaded, found = load_extensions([record])
    assert loaded.table_prefixes.prefixes == ("gone_",)
    assert len(found) == int(enabled)


def test_prefix_is_registered_before_the_entry_is_imported(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=lambda registry, config: pytest.fail("the entry was installed"))
    with pytest.raises(TablePrefixError):
        load_extensions([ExtensionSpec(use="acme:install", table_prefix="runs")])


def test_two_loadings_share_nothing(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=lambda registry, config: register_everything(registry))
    first, first_found = load_extensions(
        [ExtensionSpec(use="acme:install", table_prefix="acme_"), ExtensionSpec(use="gone_module:x")]
    )
    second, second_found = load_extensions([])
    assert first.app_store is not second.app_store
    assert second.table_prefixes.prefixes == ()
    assert len(first_found) == 1
    assert second_found == []
    assert second.services == ()


def test_refused_required_entry_leaves_nothing_to_the_next_loading(make_module: Callable[..., Any]) -> None:
    make_module("acme", install=_unmarked)
    with pytest.raises(ExtensionLoadError):
        load_extensions([ExtensionSpec(use="acme:install", required=True, table_prefix="acme_")])
    loaded, found = load_extensions([])
    assert found == []
    assert loaded.table_prefixes.prefixes == ()


def test_returned_diagnostics_are_the_live_list_of_the_snapshot() -> None:
    loaded, found = load_extensions([])
    assert found is loaded.diagnostics


def test_slow_install_is_logged_with_its_entry(
    make_module: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diagnostics, "SLOW_CALL_SECONDS", -1.0)
    make_module("acme", install=lambda registry, config: None)
    load_extensions([ACME])
    assert "Extension acme:install: install() took 0.0 s and held up the host" in messages(caplog)


def test_process_wide_set_is_replaced_and_reset() -> None:
    before = get_loaded_extensions()
    mine = LoadedExtensions()
    set_loaded_extensions(mine)
    assert get_loaded_extensions() is mine
    reset_loaded_extensions()
    assert get_loaded_extensions() is not mine
    assert get_loaded_extensions() is not before


def test_snapshot_is_immutable_and_a_key_without_running_foreign_code() -> None:
    loaded = LoadedExtensions(services=(("acme:install", Anything()),))
    with pytest.raises(AttributeError):
        loaded.services = ()  # type: ignore[misc]
    assert {loaded: 1}[loaded] == 1


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        ("middleware_contributors", True),
        ("task_lifecycle", True),
        ("system_model_observers", True),
        ("context_compaction_observers", True),
        ("agent_assembly_observers", False),
        ("services", False),
        ("routers", False),
    ],
)
def test_task_store_is_needed_only_where_a_contribution_can_see_it(kind: str, needed: bool) -> None:
    loaded = LoadedExtensions(**{kind: (("acme:install", Anything()),)})  # type: ignore[arg-type]
    assert loaded.needs_task_store is needed
