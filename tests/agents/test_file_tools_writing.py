"""Writing whole files and changing parts of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from deerflow.agents.file_tools import arguments as given
from deerflow.agents.file_tools.writing import edit_file, write_file
from deerflow.agents.workspace import Workspace, WorkspaceError
from deerflow.agents.workspace import encoding as encodings
from deerflow.agents.workspace.allowance import Allowance


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace."""
    return Workspace(tmp_path / "workspace")


def _edit(workspace: Workspace, old: str, new: str, *, replace_all: bool = False) -> str:
    wanted = given.EditArguments(path="a.txt", old_string=old, new_string=new, replace_all=replace_all)
    return edit_file(workspace, wanted, Allowance())


def _edited(workspace: Workspace, before: bytes, old: str, new: str, *, replace_all: bool = False) -> bytes:
    workspace.write("a.txt", before)
    _edit(workspace, old, new, replace_all=replace_all)
    return (workspace.root / "a.txt").read_bytes()


def test_writing_says_whether_a_file_was_there(workspace: Workspace) -> None:
    wanted = given.WriteArguments(path="/new/a.txt", content="größer")
    assert write_file(workspace, wanted, Allowance()) == "created 'new/a.txt' with 6 characters"
    assert write_file(workspace, wanted, Allowance()) == "replaced 'new/a.txt' with 6 characters"
    assert (workspace.root / "new" / "a.txt").read_text() == "größer"


def test_a_text_that_is_too_long_is_refused_before_it_is_written() -> None:
    with pytest.raises(ValidationError, match="at most 10000000 characters"):
        given.WriteArguments(path="a.txt", content="x" * (given.MAX_WRITE_CHARACTERS + 1))


def test_one_occurrence_is_replaced(workspace: Workspace) -> None:
    assert _edited(workspace, b"one two", "two", "three") == b"one three"
    assert _edited(workspace, b"one two", "two", "") == b"one "


def test_all_occurrences_are_replaced_where_that_is_asked_for(workspace: Workspace) -> None:
    assert _edited(workspace, b"aa a\na", "a", "b", replace_all=True) == b"bb b\nb"


def test_several_occurrences_are_refused_with_their_lines(workspace: Workspace) -> None:
    workspace.write("a.txt", b"x\ny x\n\n" + b"x\n" * 9)
    with pytest.raises(WorkspaceError, match=r"stands 11 times in 'a\.txt' \(line 1, 2, 4, 5, 6, …\)"):
        _edit(workspace, "x", "y")
    assert (workspace.root / "a.txt").read_bytes().startswith(b"x\ny x")


@pytest.mark.parametrize(
    ("before", "old", "hint"),
    [
        (b"one", "two", "read the file again, and copy the text exactly"),
        (b"one", " one", "with the blanks around it"),
        (b"caf\xe9", "caf\ufffd", "it stands for bytes that are no text"),
        (b"one\r\ntwo\n", "one\ntwo", "the file mixes line ends"),
    ],
)
def test_text_that_is_not_there_is_refused_with_a_likely_reason(
    workspace: Workspace, before: bytes, old: str, hint: str
) -> None:
    workspace.write("a.txt", before)
    with pytest.raises(WorkspaceError, match="does not hold old_string") as refused:
        _edit(workspace, old, "new")
    assert hint in str(refused.value)
    assert (workspace.root / "a.txt").read_bytes() == before


def test_changing_nothing_is_refused(workspace: Workspace) -> None:
    workspace.write("a.txt", b"one")
    with pytest.raises(WorkspaceError, match="are equal"):
        _edit(workspace, "one", "one")
    with pytest.raises(ValidationError):
        given.EditArguments(path="a.txt", old_string="", new_string="x")


def test_line_ends_of_windows_are_kept_though_asked_for_without(workspace: Workspace) -> None:
    assert _edited(workspace, b"one\r\ntwo\r\n", "one\ntwo", "1\n2\n3") == b"1\r\n2\r\n3\r\n"
    assert _edited(workspace, b"one\r\ntwo\r\n", "one\r\ntwo", "1") == b"1\r\n"


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "utf-32"])
def test_encoding_and_byte_order_mark_are_kept(workspace: Workspace, mark: str) -> None:
    assert _edited(workspace, "größer 😀".encode(mark), "größer", "ß") == "ß 😀".encode(mark)


def test_bytes_that_are_no_text_are_kept(workspace: Workspace) -> None:
    assert _edited(workspace, b"caf\xe9 \xf0\x9f one", "one", "two") == b"caf\xe9 \xf0\x9f two"
    broken = b"\xff\xfe" + "a\ud835b".encode("utf-16-le", "surrogatepass")
    assert _edited(workspace, broken, "b", "c") == broken[:-2] + b"c\0"


def test_what_cannot_be_edited_without_loss_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write("a.txt", b"\xff\xfea\0b")
    with pytest.raises(WorkspaceError, match="is not valid utf-16-le: replace it with write_file"):
        _edit(workspace, "a", "b")
    workspace.write("a.txt", b"GIF\0a")
    with pytest.raises(WorkspaceError, match="binary file"):
        _edit(workspace, "a", "b")
    monkeypatch.setattr(encodings, "MAX_EDITED_BYTES", 10)
    workspace.write("a.txt", b"a" * 11)
    with pytest.raises(WorkspaceError, match="has more than 10 bytes"):
        _edit(workspace, "a", "b", replace_all=True)


def test_an_edit_that_would_blow_the_file_up_is_refused(workspace: Workspace) -> None:
    workspace.write("a.txt", b"x" * 20_000)
    with pytest.raises(WorkspaceError, match="would have more than 10000000 characters"):
        _edit(workspace, "x", "y" * 1000, replace_all=True)
