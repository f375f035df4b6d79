"""The configuration file is changed at once, by one at a time, and never over somebody's head."""

from __future__ import annotations

import multiprocessing
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock

from deerflow.kit import config_file
from deerflow.kit.config_file import ConfigFile, find_config_file
from deerflow.kit.errors import KitError
from deerflow.kit.plugin_edits import with_appended, with_enabled
from deerflow.kit.plugin_records import PluginsText


def _append(plugins: PluginsText, use: str) -> str:
    return with_appended(plugins, {"use": use})


def _append_to(path: Path, use: str) -> None:
    ConfigFile(path, must_exist=False).edit(partial(_append, use=use))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_bytes("設定: 1\r\nplugins:\r\n  - use: a:b\r\n".encode())
    return file


def _only(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir() if not entry.name.endswith(".lock")}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_mode_and_bytes_are_kept(path: Path, mode: int) -> None:
    path.chmod(mode)
    before = path.read_bytes()
    assert ConfigFile(path, must_exist=True).edit(partial(_append, use="c:d")) == before
    assert path.read_bytes() == before + b"  - use: c:d\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert _only(path.parent) == {"config.yaml"}


def test_a_missing_file_is_created_as_any_other(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    assert ConfigFile(path, must_exist=False).edit(partial(_append, use="c:d")) is None
    assert path.read_text() == "plugins:\n  - use: c:d\n"
    (tmp_path / "other").write_text("")
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.parent / "linked.yaml"
    link.symlink_to(path)
    _append_to(link, "c:d")
    assert link.is_symlink() and b"c:d" in path.read_bytes()


def test_an_edit_that_changes_nothing_writes_nothing(path: Path) -> None:
    before = path.stat()
    ConfigFile(path, must_exist=True).edit(
        lambda plugins: with_enabled(plugins, plugins.records[0], True).replace("\r\n    enabled: true", "")
    )
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_a_person_saves_meanwhile_is_kept_and_the_change_made_on_it(path: Path) -> None:
    calls = []

    def change(plugins: PluginsText) -> str:
        calls.append(plugins.text)
        if len(calls) == 1:
            path.write_bytes(b"theirs: 1\n")
        return _append(plugins, "c:d")

    ConfigFile(path, must_exist=True).edit(change)
    assert path.read_text() == "theirs: 1\nplugins:\n  - use: c:d\n"
    assert len(calls) == 2


def test_a_file_that_somebody_creates_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"

    def change(plugins: PluginsText) -> str:
        if not path.exists():
            path.write_text("theirs: 1\n")
        return _append(plugins, "c:d")

    ConfigFile(path, must_exist=False).edit(change)
    assert path.read_text() == "theirs: 1\nplugins:\n  - use: c:d\n"


def test_a_file_that_never_rests_is_left_alone(path: Path) -> None:
    saves = iter(range(100))

    def change(plugins: PluginsText) -> str:
        path.write_text(f"theirs: {next(saves)}\n")
        return _append(plugins, "c:d")

    with pytest.raises(KitError, match="was saved by somebody else 5 times"):
        ConfigFile(path, must_exist=True).edit(change)
    assert path.read_text() == "theirs: 4\n"
    assert _only(path.parent) == {"config.yaml"}


def test_edits_of_several_processes_all_arrive(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append_to, args=(path, f"m{number}:install")) for number in range(3)]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: _append_to(path, f"t{number}:install"), range(8)))
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    uses = {record.text("use") for record in ConfigFile(path, must_exist=True).read().records}
    assert uses == {"a:b", *(f"m{n}:install" for n in range(3)), *(f"t{n}:install" for n in range(8))}


def test_waiting_for_another_program_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_file, "LOCK_SECONDS", 0.05)
    with FileLock(path.with_name(".config.yaml.lock")):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(_append_to, path, "c:d")
            with pytest.raises(KitError, match="another program"):
                waiting.result()


def test_a_failed_change_leaves_the_file_alone(path: Path) -> None:
    before = path.read_bytes()

    def change(plugins: PluginsText) -> str:
        raise KitError("no")

    with pytest.raises(KitError):
        ConfigFile(path, must_exist=True).edit(change)
    assert path.read_bytes() == before and _only(path.parent) == {"config.yaml"}


def test_a_write_that_fails_leaves_the_file_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(KitError, match="cannot be written: No space left"):
        _append_to(path, "c:d")
    assert path.read_bytes() == before and _only(path.parent) == {"config.yaml"}


def test_what_is_no_text_in_utf8_is_refused(path: Path) -> None:
    path.write_bytes(b"a: \xff\n")
    with pytest.raises(KitError, match=r"is not in UTF-8 \(byte 3\)"):
        _append_to(path, "c:d")


def test_the_file_is_the_one_that_the_host_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    assert find_config_file(None).path == tmp_path / "config.yaml"
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", "other.yaml")
    with pytest.raises(KitError, match=r"other\.yaml: no such file"):
        find_config_file(None)
    (tmp_path / "other.yaml").write_text("")
    assert find_config_file(None).path == tmp_path / "other.yaml"
    with pytest.raises(KitError, match="is not a file"):
        find_config_file(tmp_path)
