"""What a workspace shows, what it refuses, and how it writes."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import psutil
import pytest

from deerflow.agents.workspace import (
    OUTPUTS_FOLDER,
    FolderPathError,
    MissingPathError,
    Workspace,
    WorkspaceError,
)
from deerflow.agents.workspace.allowance import AbandonedError, Allowance

SECRET = "not for agents"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with a file, next to a folder that nobody may reach."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    made = Workspace(tmp_path / "threads" / "one" / "workspace")
    made.write("docs/guide.md", b"# Guide\n")
    return made


def _read(workspace: Workspace, path: str) -> str:
    with workspace.open_file(path) as file:
        return file.read().decode()


def _names(workspace: Workspace, path: str = ".") -> list[str]:
    return sorted(entry.name for entry in workspace.entries(path))


def _refuses_everything(workspace: Workspace, path: str) -> None:
    for attempt in (
        lambda: workspace.open_file(path).close(),
        lambda: list(workspace.entries(path)),
        lambda: workspace.write(path, b"broken in"),
    ):
        with pytest.raises(WorkspaceError):
            attempt()


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "docs/../../outside/secret.txt",
        "/../outside/secret.txt",
        "docs/..",
        "~",
        "~/secret.txt",
        "a\0b",
        "a\nb",
        "half \ud835",
        "n" * 256,
        "é" * 128,
        "/".join("d" * 65),
    ],
)
def test_a_path_that_leaves_or_cannot_exist_is_refused_by_every_operation(
    workspace: Workspace, tmp_path: Path, path: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    _refuses_everything(workspace, path)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_absolute_path_starts_at_the_workspace(workspace: Workspace) -> None:
    assert _read(workspace, "/docs/guide.md") == "# Guide\n"
    with pytest.raises(MissingPathError):
        workspace.open_file("/etc/passwd")
    workspace.write("/etc/motd", b"hello")
    assert (workspace.root / "etc" / "motd").read_bytes() == b"hello"


def test_dots_and_double_slashes_change_nothing(workspace: Workspace) -> None:
    assert _read(workspace, "./docs//./guide.md") == "# Guide\n"


def test_links_are_refused_wherever_they_lead(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (workspace.root / "folder").symlink_to(outside)
    (workspace.root / "file").symlink_to(outside / "secret.txt")
    (workspace.root / "inside").symlink_to("docs/guide.md")
    (workspace.root / "dangling").symlink_to(outside / "new.txt")
    for path in ("folder", "folder/secret.txt", "file", "inside", "dangling"):
        _refuses_everything(workspace, path)
    with pytest.raises(WorkspaceError, match="'file' is a link"):
        workspace.open_file("file")
    with pytest.raises(WorkspaceError, match="'folder' is a link"):
        workspace.open_file("folder/secret.txt")
    assert os.listdir(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == SECRET
    assert {entry.name: entry.kind for entry in workspace.entries(".")}["folder"] == "link"


def test_a_hard_link_is_replaced_and_never_written_through(workspace: Workspace, tmp_path: Path) -> None:
    secret = tmp_path / "outside" / "secret.txt"
    os.link(secret, workspace.root / "shared.txt")
    workspace.write("shared.txt", b"mine")
    assert secret.read_text() == SECRET


def test_pipes_sockets_and_devices_are_refused_without_waiting(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    with pytest.raises(WorkspaceError, match="'pipe' is a pipe"):
        workspace.open_file("pipe")
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(workspace.root)  # the path of a socket must be short
        try:
            bound.bind("socket")
        finally:
            os.chdir(here)
        with pytest.raises(WorkspaceError, match="'socket' is a socket"):
            workspace.open_file("socket")
    for path in ("pipe", "socket"):
        _refuses_everything(workspace, path)
    with pytest.raises(WorkspaceError, match="is a device"):
        Workspace(workspace.root, {"null": Path(os.devnull)}).open_file("null")


def test_a_folder_where_a_file_is_asked_for_is_told_apart(workspace: Workspace) -> None:
    for path in ("docs", ".", ""):
        with pytest.raises(FolderPathError, match="list it with ls"):
            workspace.open_file(path)
        with pytest.raises(WorkspaceError, match="is a folder"):
            workspace.write(path, b"")
    with pytest.raises(WorkspaceError, match=r"'docs/guide\.md' is a file"):
        workspace.open_file("docs/guide.md/deeper")
    with pytest.raises(WorkspaceError, match=r"'docs/guide\.md' is a file"):
        list(workspace.entries("docs/guide.md"))


@pytest.mark.parametrize("asked", ["docs/Guide.MD", "docs/guide.txt", "docs/GUIDE.md"])
def test_a_missing_file_is_answered_with_what_is_similar(workspace: Workspace, asked: str) -> None:
    with pytest.raises(MissingPathError, match=r"did you mean 'docs/guide\.md'\?"):
        workspace.open_file(asked)


def test_a_missing_file_without_likeness_points_to_listing(workspace: Workspace) -> None:
    with pytest.raises(
        MissingPathError, match="there is no 'a/b/c' in the workspace: see what there is with ls"
    ):
        workspace.open_file("a/b/c")


def test_no_message_names_a_folder_of_the_host(workspace: Workspace) -> None:
    for path in ("nothing", "docs", "../x", "docs/guide.md/x"):
        with pytest.raises(WorkspaceError) as refused:
            workspace.open_file(path)
        assert str(workspace.root) not in str(refused.value)


def test_a_workspace_is_made_when_something_is_written_and_only_for_this_user(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "threads" / "new" / "workspace")
    assert _names(workspace) == []
    with pytest.raises(MissingPathError, match=r"no 'a\.txt'"):
        workspace.open_file("a.txt")
    assert os.listdir(tmp_path) == []
    assert workspace.write("deep/er/a.txt", b"x") is False
    made = [tmp_path / "threads", workspace.root, workspace.root / "deep" / "er"]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in made} == {0o700}
    assert stat.S_IMODE((workspace.root / "deep/er/a.txt").stat().st_mode) == 0o600


def test_replacing_a_file_says_so_and_keeps_its_permissions(workspace: Workspace) -> None:
    script = workspace.root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    assert workspace.write("run.sh", b"new") is True
    assert script.read_bytes() == b"new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert _names(workspace) == ["docs", "run.sh"]


def test_a_reader_keeps_the_file_that_it_opened(workspace: Workspace) -> None:
    workspace.write("a.txt", b"first")
    with workspace.open_file("a.txt") as file:
        workspace.write("a.txt", b"second")
        assert file.read() == b"first"
    assert _read(workspace, "a.txt") == "second"


@pytest.mark.parametrize("content", [b"new" * 1_000_000, b""], ids=["long", "empty"])
def test_an_abandoned_write_leaves_the_old_file_and_nothing_beside_it(
    workspace: Workspace, content: bytes
) -> None:
    workspace.write("a.txt", b"old")
    allowance = Allowance()
    allowance.abandon()
    with pytest.raises(AbandonedError):
        workspace.write("a.txt", content, allowance)
    assert _read(workspace, "a.txt") == "old"
    assert sorted(os.listdir(workspace.root)) == ["a.txt", "docs"]


def test_nothing_is_written_below_a_file(workspace: Workspace) -> None:
    with pytest.raises(WorkspaceError, match=r"'docs/guide\.md' is a file"):
        workspace.write("docs/guide.md/x", b"")
    assert os.listdir(workspace.root / "docs") == ["guide.md"]


@pytest.fixture
def mounted(tmp_path: Path) -> Workspace:
    """A workspace that shows a file and a folder of the host."""
    host = tmp_path / "host"
    (host / "manual").mkdir(parents=True)
    (host / "manual" / "one.md").write_text("one")
    (host / "manual" / "out").symlink_to(tmp_path)
    (host / "README.md").write_text("read me")
    (host / "link.md").symlink_to("README.md")
    mounts = {"README.md": host / "link.md", "docs/manual": host / "manual", "gone": host / "gone"}
    return Workspace(tmp_path / "workspace", mounts)


def test_mounts_are_shown_and_read_like_files_of_the_workspace(mounted: Workspace) -> None:
    assert _names(mounted) == ["README.md", "docs", "gone"]
    assert _names(mounted, "docs") == ["manual"]
    assert _names(mounted, "docs/manual") == ["one.md", "out"]
    assert _read(mounted, "README.md") == "read me"
    assert _read(mounted, "/docs/manual/one.md") == "one"
    with pytest.raises(MissingPathError, match=r"did you mean 'docs/manual/one\.md'"):
        mounted.open_file("docs/manual/ones.md")
    with pytest.raises(MissingPathError, match="no 'gone'"):
        mounted.open_file("gone")


@pytest.mark.parametrize(
    "path", ["README.md", "docs/manual", "docs/manual/one.md", "docs/manual/new.md", "gone"]
)
def test_mounts_cannot_be_written(mounted: Workspace, tmp_path: Path, path: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(WorkspaceError, match="is read-only: write to another name"):
        mounted.write(path, b"changed")
    assert sorted(tmp_path.rglob("*")) == before
    assert _read(mounted, "README.md") == "read me"


def test_links_within_a_mount_are_refused(mounted: Workspace) -> None:
    with pytest.raises(WorkspaceError, match="'docs/manual/out' is a link"):
        list(mounted.entries("docs/manual/out"))


def test_a_mount_hides_what_stands_there_and_its_neighbours_stay(mounted: Workspace) -> None:
    mounted.write("docs/own.md", b"own")
    (mounted.root / "README.md").write_text("hidden")
    assert _names(mounted, "docs") == ["manual", "own.md"]
    assert _read(mounted, "README.md") == "read me"
    assert [entry.name for entry in mounted.entries(".")].count("README.md") == 1
    read_only = {entry.name: entry.is_read_only for entry in mounted.entries("docs")}
    assert read_only == {"manual": True, "own.md": False}


@pytest.mark.parametrize("name", ["", ".", "/", "../up", "~/x"])
def test_a_mount_needs_a_name_inside(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkspaceError):
        Workspace(tmp_path, {name: tmp_path})


def test_kept_outputs_are_reached_by_name_and_not_listed(workspace: Workspace) -> None:
    workspace.write((OUTPUTS_FOLDER, "long.txt"), b"long")
    assert _names(workspace) == ["docs"]
    assert _names(workspace, OUTPUTS_FOLDER) == ["long.txt"]
    assert _read(workspace, f"{OUTPUTS_FOLDER}/long.txt") == "long"


def test_no_descriptor_stays_open(mounted: Workspace, tmp_path: Path) -> None:
    (mounted.root / "a" / "b").mkdir(parents=True)
    (mounted.root / "a" / "out").symlink_to(tmp_path)
    os.mkfifo(mounted.root / "a" / "pipe")
    process = psutil.Process()
    before = process.num_fds()
    for _ in range(5):
        mounted.write("a/b/c.txt", b"x")
        _read(mounted, "a/b/c.txt")
        _read(mounted, "docs/manual/one.md")
        _names(mounted, "a/b")
        next(mounted.entries("a"))
        for path in (
            "a",
            "a/out",
            "a/out/x",
            "a/pipe",
            "a/b/none",
            "a/b/c.txt/x",
            "docs/manual",
            "docs/manual/out",
        ):
            with pytest.raises(WorkspaceError):
                mounted.open_file(path)
            with pytest.raises(WorkspaceError):
                mounted.write(path if path != "a/b/none" else "a", b"")
    assert process.num_fds() == before


def test_workspaces_are_values(tmp_path: Path) -> None:
    assert Workspace(tmp_path) == Workspace(tmp_path)
    assert hash(Workspace(tmp_path, {"a": tmp_path})) == hash(Workspace(tmp_path))
    assert Workspace(tmp_path) != Workspace(tmp_path / "other")
