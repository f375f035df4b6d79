"""`deerflow users`, as an operator meets it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from deerflow.cli.main import run


@dataclass(frozen=True)
class Done:
    status: int
    stdout: str
    stderr: str


Users = Callable[..., Done]


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Users:
    """Runs `deerflow users` in a folder with a configuration."""
    (tmp_path / "config.yaml").write_text("auth: {mode: users}\n")
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str, text: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        status = run(["users", *arguments])
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return command


def test_users_are_added_listed_and_revoked(users: Users) -> None:
    added = users("add", "Alice", "--admin", "--admin-token", "--password", text="a long password\n")
    assert added.status == 0, added.stderr
    assert "shown this once" in added.stderr
    token = added.stdout.strip()
    assert token.startswith("dft_")
    users("add", "bob")
    listed = users("list").stdout.splitlines()
    assert [line.split("  ")[:-1] for line in listed] == [["alice", "admin", "password"], ["bob"]]
    assert "(admin)" in listed[0]
    assert token not in "".join(listed)
    bobs = listed[1].rpartition("tokens: ")[2]
    assert users("revoke", "bob", "--token", bobs).stdout == f"revoked token {bobs} of bob\n"
    assert users("list").stdout.splitlines()[1] == "bob  tokens: none"
    assert users("revoke", "alice").stdout == "revoked alice\n"
    assert users("list").stdout.startswith("alice  revoked ")


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        (["add", "../x"], "", "a name has"),
        (["add", "local"], "", "reserved"),
        (["add", "alice", "--admin-token"], "", "give --admin"),
        (["add", "alice", "--password"], "short\n", "8 to 1024 characters"),
        (["revoke", "nobody"], "", "there is no user"),
        (["revoke", "nobody", "--token", "x"], "", "no token"),
    ],
)
def test_what_cannot_be_done_is_one_line(users: Users, arguments: list[str], text: str, said: str) -> None:
    done = users(*arguments, text=text)
    assert (done.status, done.stdout) == (1, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_database_in_memory_keeps_no_users(users: Users) -> None:
    Path("config.yaml").write_text("database: {backend: memory}\n")
    done = users("add", "alice")
    assert done.status == 1
    assert "database.backend" in done.stderr
