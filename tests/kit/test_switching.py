"""Listing and switching extensions on the command line; nothing of theirs is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.cli.main import run

CONFIG = """\
my.key: 1
2fa: {on: true}
$schema: x
鍵: 値   # theirs
plugins:
  - {use: 'import_exits:install', name: first}   # one
  - {use: 'second:install', requierd: true}
  - use: third:install
    enabled: $ACME_ENABLED
    required: true
  - text
# the end
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "broken"))
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "state"))
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def test_every_record_is_listed_and_what_is_broken_is_said(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACME_ENABLED", "true")
    assert run(["extensions", "list", "--config", str(config)]) == 0
    written = capsys.readouterr()
    rows = [line.split() for line in written.out.splitlines()]
    assert rows[0] == ["NAME", "STATE", "ENTRY", "POINT", "PACKAGE", "SOURCE"]
    assert [row[:3] for row in rows[1:5]] == [
        ["first", "enabled", "import_exits:install"],
        ["second:install", "broken", "second:install"],
        ["third:install", "required", "third:install"],
        ["plugins[3]", "broken", "-"],
    ]
    assert written.err.splitlines()[0].startswith(f"{config}: second:install: requierd: is an unknown key")
    assert len(written.err.splitlines()) == 2


def test_a_variable_that_is_not_set_is_a_problem_of_its_record_alone(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ACME_ENABLED", raising=False)
    assert run(["extensions", "list", "--config", str(config)]) == 0
    assert "environment variable ACME_ENABLED is not set" in capsys.readouterr().err
    assert run(["extensions", "disable", "first", "--config", str(config)]) == 0


def test_neighbours_of_a_broken_record_are_switched_and_everything_else_stays(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["extensions", "disable", "first", "--config", str(config)]) == 0
    disabled = CONFIG.replace("'import_exits:install',", "'import_exits:install', enabled: false,")
    assert config.read_text() == disabled
    assert run(["extensions", "enable", "third:install", "--config", str(config)]) == 0
    assert config.read_text() == disabled.replace("enabled: $ACME_ENABLED", "enabled: true")
    assert capsys.readouterr().out.splitlines() == [
        "disabled first; restart the host",
        "enabled third:install; restart the host",
    ]


def test_a_broken_record_can_be_removed_by_its_place(config: Path) -> None:
    assert run(["extensions", "remove", "plugins[3]", "--config", str(config)]) == 0
    assert config.read_text() == CONFIG.replace("  - text\n", "")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["disable", "nobody"], 2, "no plugin is called 'nobody'"),
        (["disable"], 2, "Missing argument 'NAME'"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["install", "http://example.org/a.git", "--yes"], 2, "repositories are read over https"),
        (["upgrade", "first", "--yes"], 1, "its source is not known"),
    ],
)
def test_failures_are_one_line_and_change_nothing(
    config: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    options = [] if arguments[0] == "nonsense" else ["--config", str(config)]
    assert run(["extensions", *arguments, *options]) == status
    written = capsys.readouterr()
    assert said in written.err and len(written.err.splitlines()) == 1 and written.out == ""
    assert config.read_text() == CONFIG


def test_two_lists_of_plugins_are_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"plugins: []\n{CONFIG}"
    config.write_text(text)
    assert run(["extensions", "disable", "first", "--config", str(config)]) == 1
    assert "plugins stands 2 times (lines 1, 6); keep one of them" in capsys.readouterr().err
    assert config.read_text() == text


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["extensions", "--help"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert {"list", "check", "new", "install", "upgrade", "enable", "disable", "remove"} <= listed
