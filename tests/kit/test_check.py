"""`deerflow extensions check` finds every fault in broken extensions, and none in good ones."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deerflow_extension_api import API_VERSION

from deerflow.cli.main import run
from deerflow.config import ExtensionSpec
from deerflow.extensions import get_loaded_extensions
from deerflow.kit import check as check_module
from deerflow.kit.check import check_extensions
from deerflow.kit.check_report import CheckReport, EntryReport, Fate
from deerflow.kit.scaffold import write_extension
from deerflow.kit.trial import try_out

HERE = Path(__file__).parent
SLOW_SECONDS = 0.25

LOADED, REDUCED, DROPPED, STOPS = Fate.LOADED, Fate.REDUCED, Fate.DROPPED, Fate.STOPS_HOST

FAULTS = {
    "syntax_error": (DROPPED, "error", "could not resolve extension entry point: "),
    "import_fails": (DROPPED, "error", "No module named 'a_package_that_nobody_has'"),
    "import_raises": (DROPPED, "error", "set ACME_KEY first"),
    "import_is_cancelled": (DROPPED, "error", "could not resolve extension entry point: CancelledError"),
    "import_exits": (STOPS, "error", "it ends the process: SystemExit('no license')"),
    "import_is_slow": (LOADED, "warning", "import takes 0.3 s"),
    "install_is_missing": (DROPPED, "error", "has no attribute 'install'"),
    "install_is_no_function": (DROPPED, "error", "entry point is not callable: int"),
    "install_is_async": (DROPPED, "error", "install() must be a plain function; it returned a coroutine"),
    "install_raises": (DROPPED, "error", "install() failed: limit: 'x' is not allowed; write a number"),
    "install_is_cancelled": (DROPPED, "error", "install() failed: CancelledError"),
    "install_exits": (STOPS, "error", "it ends the process: SystemExit(3)"),
    "install_is_slow": (LOADED, "warning", "install() takes 0.3 s"),
    "contract_is_newer": (DROPPED, "error", f"host provides {API_VERSION}. Install a matching version"),
    "contract_is_another": (DROPPED, "error", "requires extension-api 0.99.0"),
    "contract_is_no_version": (DROPPED, "error", "invalid extension-api version marker of type float"),
    "contract_cannot_be_read": (
        DROPPED,
        "error",
        "could not inspect extension-api version marker: LookupError",
    ),
    "registers_a_class": (DROPPED, "error", "register an instance of it"),
    "registers_none": (DROPPED, "error", "registry.service() got None"),
    "registers_the_wrong_kind": (DROPPED, "error", "has no method on_task_start or on_task_stop"),
    "registers_one_router": (DROPPED, "error", "write routers([router])"),
    "registers_an_unknown_kind": (DROPPED, "error", "has no attribute 'tools'"),
    "registers_nothing": (LOADED, "warning", "it registers nothing"),
    "hooks_take_too_little": (
        REDUCED,
        "error",
        "Hooks.on_task_stop takes (app_store, task_store, info); "
        "the host calls on_task_stop(self, app_store, task_store, info, outcome)",
    ),
    "hooks_are_plain": (LOADED, "warning", "Hooks.on_task_start is a plain function, but the host awaits it"),
    "observer_is_async": (REDUCED, "error", "Observer.on_agent_assembled is async"),
    "contributor_raises": (REDUCED, "error", "contribute_middlewares() failed: 'model'"),
    "contributor_is_async": (REDUCED, "error", "it returned a coroutine"),
    "middleware_has_no_placement": (REDUCED, "error", "expected a MiddlewarePlacement"),
    "middleware_is_no_middleware": (REDUCED, "error", "it is object, expected an AgentMiddleware"),
    "middleware_has_a_wrong_order": (REDUCED, "error", "its order is str, expected an int"),
    "tools_are_the_hosts": (REDUCED, "error", "its tool 'read_file' is left out: the host has one"),
    "tools_are_no_tools": (REDUCED, "error", "its tools hold str, expected tools or functions"),
    "middleware_state_cannot_be_built": (REDUCED, "error", "its state_schema cannot be read: name 'Note'"),
    "routes_clash_with_each_other": (
        REDUCED,
        "error",
        "GET /acme/{number:int} is already served by GET /acme/{item}",
    ),
    "routes_start_something": (REDUCED, "error", "on_startup and on_shutdown would not run"),
    "routes_are_reserved": (REDUCED, "error", "can reach /health, which is reserved for the host"),
    "routes_hide_the_hosts": (REDUCED, "error", "POST /threads is already served by"),
    "routes_are_websockets": (REDUCED, "error", "only HTTP routes can be contributed"),
    "routes_are_an_application": (REDUCED, "error", "this is a FastAPI"),
    "routes_have_a_lifespan": (REDUCED, "error", "its lifespan would not run"),
}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    (tmp_path / "syntax_error.py").write_text("def install(registry, config)\n")
    folders = (HERE / "broken", HERE / "good", tmp_path)
    for folder in folders:
        monkeypatch.syspath_prepend(str(folder))
    yield
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and any(Path(file).is_relative_to(folder) for folder in folders):
            sys.modules.pop(name)


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The only time that passes for a check: a machine that stands still is no cost of an extension."""
    seconds: list[float] = []
    monkeypatch.setattr(check_module, "time", SimpleNamespace(monotonic=lambda: sum(seconds)))
    return seconds


def _check(*records: dict[str, Any]) -> CheckReport:
    return check_extensions([ExtensionSpec.model_validate(record) for record in records])


def _entry(**record: Any) -> EntryReport:
    (entry,) = _check(record).entries
    return entry


def test_every_broken_extension_is_in_the_table() -> None:
    assert {path.stem for path in (HERE / "broken").glob("*.py")} == FAULTS.keys() - {"syntax_error"}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_and_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    if name.endswith("is_slow"):
        monkeypatch.setattr(check_module, "SLOW_CALL_SECONDS", SLOW_SECONDS)
        monkeypatch.setattr(time, "sleep", slept.append)
    fate, level, text = FAULTS[name]
    entry = _entry(use=f"{name}:install")
    assert entry.fate is fate
    levels = [finding.level for finding in entry.findings]
    assert levels == [level] * (2 if name == "hooks_take_too_little" else 1), entry.findings
    assert text in entry.findings[0].text
    assert all(len(line.splitlines()) == 1 for line in entry.lines())


@pytest.mark.parametrize("name", ["install_raises", "import_fails", "contract_is_newer"])
def test_a_required_extension_that_fails_keeps_the_host_from_starting(name: str) -> None:
    assert _entry(use=f"{name}:install", required=True).fate is STOPS


@pytest.mark.parametrize(
    "record",
    [
        {"use": "all_kinds:install", "table_prefix": "acme_", "config": {"a": 1}},
        {"use": "duck_typed:install"},
        {"use": "knows_its_agent:install"},
        {"use": "nested:Extension.install", "required": True},
        {"use": "tool_call_counter:install", "config": {"report": "stdout"}},
    ],
    ids=lambda record: record["use"],
)
def test_nothing_is_found_in_a_good_extension(record: dict[str, Any]) -> None:
    report = _check(record)
    assert report.ok
    assert [entry.findings for entry in report.entries] == [()]
    assert report.entries[0].fate is LOADED


def test_nothing_is_found_in_a_new_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(write_extension("acme-checked", directory=tmp_path)))
    entry = _entry(use="acme_checked:install")
    assert entry.findings == ()
    assert entry.routes == ("GET /acme-checked",)


def test_what_is_registered_is_listed() -> None:
    entry = _entry(use="all_kinds:install", table_prefix="acme_")
    assert entry.contract == f"0.2 fits {API_VERSION}"
    assert entry.contributions == (
        "task lifecycle Contributions",
        "system call observer Contributions",
        "compaction observer Contributions",
        "assembly observer Contributions",
        "service Contributions",
        "middleware Looking (tool_raw; lead, subagents)",
        "middleware Plain (standard; lead)",
    )
    assert entry.routes == ("GET /acme/{item}",)
    assert "  tables     acme_*" in list(entry.lines())


def test_a_route_of_an_earlier_extension_is_not_free() -> None:
    first, second = _check({"use": "all_kinds:install"}, {"use": "all_kinds:install"}).entries
    assert first.findings == () and second.fate is REDUCED
    assert "is already served by" in second.findings[-1].text


def test_a_tool_of_an_earlier_extension_keeps_its_name() -> None:
    first, second = _check({"use": "knows_its_agent:install"}, {"use": "knows_its_agent:install"}).entries
    assert first.findings == () and second.fate is REDUCED
    (finding,) = second.findings
    assert finding.text == (
        "its tool 'own_name' is left out: extension knows_its_agent:install has one of this name"
    )


def test_what_the_host_imports_anyway_is_no_cost_of_an_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = ("deerflow.gateway.app", "langchain.agents", "fastapi")
    (tmp_path / "comes_last.py").write_text(
        f"import sys\nassert sys.modules.keys() >= {set(modules)}\ninstall = lambda registry, config: None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert try_out("plugins: [{use: 'comes_last:install'}]\n", 0) == []


def test_a_table_prefix_that_hides_the_hosts_tables_stops_it_even_when_disabled() -> None:
    for enabled in (True, False):
        entry = _entry(use="duck_typed:install", table_prefix="run", enabled=enabled)
        assert entry.fate is STOPS
        assert "would hide host-owned table(s)" in entry.findings[0].text


def test_overlapping_prefixes_and_names_given_twice_are_warned_of() -> None:
    records = (
        {"use": "duck_typed:install", "name": "same", "table_prefix": "acme_"},
        {"use": "duck_typed:install", "name": "same", "table_prefix": "ACME_audit_"},
    )
    report = _check(*records)
    assert report.ok
    texts = [finding.text for entry in report.entries for finding in entry.findings]
    assert any("overlaps with 'acme_'" in text for text in texts)
    assert sum("given to several records" in text for text in texts) == 2


def test_a_disabled_extension_is_not_imported() -> None:
    entry = _entry(use="import_exits:install", enabled=False)
    assert entry.fate is Fate.DISABLED and entry.findings == ()
    assert "import_exits" not in sys.modules


def test_nothing_of_the_host_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "state"
    monkeypatch.setenv("DEER_FLOW_HOME", str(home))
    before = get_loaded_extensions()
    assert _check({"use": "all_kinds:install"}).ok
    assert get_loaded_extensions() is before
    assert not home.exists()


def test_the_command_reports_and_ends_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "plugins:\n- {use: 'install_raises:install', name: refusing}\n- use: duck_typed:install\n"
    )
    assert run(["extensions", "check", "--config", str(config)]) == 1
    written = capsys.readouterr()
    assert written.err == f"deerflow: {config}: 1 error\n"
    lines = written.out.splitlines()
    assert lines[0] == "refusing (install_raises:install): not loaded"
    assert "duck_typed:install: ok" in lines
    assert "Traceback" not in written.out + caplog.text


def test_the_command_ends_with_zero_where_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    assert run(["extensions", "check"]) == 0
    assert capsys.readouterr().out == "config.yaml: no plugins\n"
    (tmp_path / "config.yaml").write_text("plugins: [{use: 'duck_typed:install'}]\n")
    assert run(["extensions", "check"]) == 0
    assert list(tmp_path.glob(".deer-flow")) == []


def test_records_are_checked_although_the_file_is_wrong_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "auth: {mode: nonsense}\nplugins:\n- use: duck_typed:install\n- {use: 'a:b', requierd: true}\n"
        "- use: install_raises:install\n"
    )
    assert run(["extensions", "check", "--config", str(config)]) == 1
    written = capsys.readouterr()
    assert f"{config}: auth.mode: 'nonsense' is not allowed" in written.out
    assert "plugins[1].requierd: is an unknown key" in written.out
    assert "duck_typed:install: ok" in written.out
    assert "install_raises:install: not loaded" in written.out
    assert written.err.endswith(": 3 errors\n")


def test_a_named_file_that_is_missing_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["extensions", "check", "--config", str(tmp_path / "none.yaml")]) == 1
    assert "none.yaml: no such file" in capsys.readouterr().err
