"""Listing and reading: within bounds, to the character, whatever the bytes are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deerflow.agents.file_tools import listing, reading
from deerflow.agents.file_tools.arguments import ListArguments, ReadArguments
from deerflow.agents.file_tools.report import MAX_CHARACTERS
from deerflow.agents.workspace import Workspace, WorkspaceError
from deerflow.agents.workspace.allowance import AbandonedError, Allowance

Read = Callable[..., str]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace."""
    return Workspace(tmp_path / "workspace")


@pytest.fixture
def read(workspace: Workspace) -> Read:
    """Reads `a.txt`."""

    def read_it(**arguments: int) -> str:
        return reading.read_file(workspace, ReadArguments(path="a.txt", **arguments), Allowance())

    return read_it


def _read_to_the_end(read: Read, **arguments: int) -> str:
    """Follow the notices and join what they lead to."""
    whole = ""
    while True:
        result = read(**arguments)
        assert len(result) <= reading.MAX_CHARACTERS
        cut = re.search(r"\n?\[cut: .*; read on with offset=(\d+)(?:, column=(\d+))?\]$", result)
        if not cut:
            return whole + result
        part = result[: cut.start()]
        whole += part if cut[2] else part + "\n"
        arguments = {**arguments, "offset": int(cut[1]), "column": int(cut[2] or 0)}


def test_a_small_file_comes_as_it_is(workspace: Workspace, read: Read) -> None:
    workspace.write("a.txt", b"one\n\ntwo")
    assert read() == "one\n\ntwo"


def test_an_empty_file_says_so(workspace: Workspace, read: Read) -> None:
    workspace.write("a.txt", b"")
    assert read() == "[the file is empty]"


def test_a_part_says_how_many_lines_follow_and_where(workspace: Workspace, read: Read) -> None:
    workspace.write("a.txt", b"0\n1\n2\n3\n4")
    assert read(limit=2) == "0\n1\n[cut: 3 more lines; read on with offset=2]"
    assert read(offset=2, limit=2) == "2\n3\n[cut: 1 more lines; read on with offset=4]"
    assert read(offset=4, limit=2) == "4"
    assert read(offset=3, limit=2) == "3\n4"


def test_going_past_the_end_says_where_it_is(workspace: Workspace, read: Read) -> None:
    workspace.write("a.txt", b"0\n1\n")
    for offset in (2, 3, 10**30):
        with pytest.raises(WorkspaceError, match=r"'a\.txt' ends at line 2: read with a smaller offset"):
            read(offset=offset)
    with pytest.raises(WorkspaceError, match="has only 1 characters in that line"):
        read(column=2)
    workspace.write("a.txt", b"0123")
    with pytest.raises(WorkspaceError, match="ends at that column"):
        read(column=4)


@pytest.mark.parametrize("length", [-1, 0])
def test_what_just_fits_is_not_cut(workspace: Workspace, read: Read, length: int) -> None:
    text = "x" * (reading.MAX_CHARACTERS + length)
    workspace.write("a.txt", text.encode())
    assert read() == text


def test_one_character_too_many_is_cut_within_the_limit(workspace: Workspace, read: Read) -> None:
    text = "x" * (reading.MAX_CHARACTERS + 1)
    workspace.write("a.txt", text.encode())
    result = read()
    assert len(result) <= reading.MAX_CHARACTERS
    kept = result.index("\n")
    assert result[kept:] == (
        f"\n[cut: {len(text) - kept} more characters of this line; read on with offset=0, column={kept}]"
    )


def test_a_line_of_20_megabytes_can_be_read_through(workspace: Workspace, read: Read) -> None:
    line = "é" * 9_990_000 + "end"
    workspace.write("a.txt", f"{line}\nlast".encode())
    first = read()
    assert len(first) <= reading.MAX_CHARACTERS
    assert "more characters of this line and 1 more lines; read on with offset=0, column=" in first
    assert read(column=9_990_000, limit=1) == "end\n[cut: 1 more lines; read on with offset=1]"


def test_300_000_lines_can_be_read_from_anywhere(workspace: Workspace, read: Read) -> None:
    workspace.write("a.txt", "".join(f"line {i}\n" for i in range(300_000)).encode())
    assert read().endswith("line 1999\n[cut: 298000 more lines; read on with offset=2000]")
    assert read(offset=299_999) == "line 299999\n"
    longest = read(limit=300_000)
    assert len(longest) <= reading.MAX_CHARACTERS
    assert re.search(r"\nline (\d+)\n\[cut: \d+ more lines; read on with offset=\d+\]$", longest)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.integers(0, 40), max_size=60), limit=st.integers(1, 50))
def test_following_the_notices_gives_the_whole_file(
    workspace: Workspace, read: Read, monkeypatch: pytest.MonkeyPatch, lines: list[int], limit: int
) -> None:
    monkeypatch.setattr(reading, "MAX_CHARACTERS", 500)
    text = "\n".join(f"{number}" * (number * number) for number in lines)
    workspace.write("a.txt", text.encode())
    assert _read_to_the_end(read, limit=limit) == (text or "[the file is empty]")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_believed_and_not_shown(workspace: Workspace, read: Read, encoding: str) -> None:
    workspace.write("a.txt", "größer 😀\r\nnext\r\n".encode(encoding))
    assert read() == "größer 😀\nnext\n"


@pytest.mark.parametrize("mark", [b"\xfe\xff", b"\xff\xfe"], ids=["big", "little"])
def test_both_byte_orders_and_a_torn_end_are_read(workspace: Workspace, read: Read, mark: bytes) -> None:
    order = "be" if mark == b"\xfe\xff" else "le"
    workspace.write("a.txt", mark + "aé".encode(f"utf-16-{order}") + b"\x00")
    assert read() == "aé\ufffd"


def test_bytes_that_are_no_text_become_replacement_characters(workspace: Workspace, read: Read) -> None:
    content = b"caf\xe9 \xed\xa0\x80 \xf0\x9f\x98 ok\n" + b"x" * 9000 + b"\0"
    workspace.write("a.txt", content)
    result = read()
    assert result.startswith("caf\ufffd \ufffd")
    assert result.endswith("x\ufffd")
    assert result.encode().decode() == result


def test_a_binary_file_is_reported_as_one(workspace: Workspace, read: Read) -> None:
    workspace.write("a.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(WorkspaceError, match=r"'a\.txt' is a binary file of 16 bytes"):
        read()


def test_reading_stops_counting_when_its_time_is_over(workspace: Workspace) -> None:
    workspace.write("a.txt", b"line\n" * 200_000)
    result = reading.read_file(workspace, ReadArguments(path="a.txt", limit=1), Allowance(seconds=0))
    assert re.fullmatch(r"line\n\[cut: at least \d+ more lines; read on with offset=1\]", result)


def test_reading_ends_when_nobody_waits(workspace: Workspace) -> None:
    workspace.write("a.txt", b"line\n" * 10)
    allowance = Allowance()
    allowance.abandon()
    with pytest.raises(AbandonedError):
        reading.read_file(workspace, ReadArguments(path="a.txt"), allowance)


def _listed(workspace: Workspace, path: str = ".") -> str:
    return listing.list_folder(workspace, ListArguments(path=path), Allowance())


def test_a_folder_is_listed_by_name(workspace: Workspace, tmp_path: Path) -> None:
    workspace.write("b.txt", b"12")
    workspace.write("a/c.txt", b"")
    (workspace.root / "link").symlink_to(tmp_path)
    assert _listed(workspace) == "a/\nb.txt (2 bytes)\nlink (a link, not followed)"
    assert _listed(workspace, "/a") == "c.txt (0 bytes)"


def test_an_empty_folder_says_so(workspace: Workspace) -> None:
    assert _listed(workspace) == "[the folder is empty]"


def test_a_long_listing_is_cut_and_counted(workspace: Workspace) -> None:
    workspace.root.mkdir()
    for number in range(listing.MAX_ENTRIES + 3):
        (workspace.root / f"{number:05}").touch()
    lines = _listed(workspace).splitlines()
    assert lines[0] == "00000 (0 bytes)"
    assert lines[-2:] == ["00999 (0 bytes)", "[cut: 3 more entries; find them with glob]"]


def test_a_listing_of_long_names_stays_within_its_limit(workspace: Workspace) -> None:
    workspace.root.mkdir()
    for number in range(400):
        (workspace.root / (f"{number:05}" + "n" * 240)).touch()
    result = _listed(workspace)
    assert len(result) <= MAX_CHARACTERS
    assert re.search(r"\n\[cut: \d+ more entries; find them with glob\]$", result)


def test_names_that_are_no_text_are_listed_on_one_valid_line(workspace: Workspace) -> None:
    workspace.root.mkdir()
    (workspace.root / "two\nlines").touch()
    with open(bytes(workspace.root) + b"/bad-\xff", "wb"):
        pass
    assert _listed(workspace) == "bad-\ufffd (0 bytes)\ntwo\\x0alines (0 bytes)"
