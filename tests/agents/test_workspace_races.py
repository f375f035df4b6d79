"""What holds while others change the same files at the same moment."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from deerflow.agents.file_tools.arguments import EditArguments
from deerflow.agents.file_tools.writing import edit_file
from deerflow.agents.workspace import Workspace, WorkspaceError
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.worker import in_worker

ROUNDS = 1500


@contextmanager
def _meanwhile(step: Callable[[], None]) -> Iterator[None]:
    """Repeat `step` in another thread."""
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.is_set():
            step()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _move(source: Path, target: Path) -> None:
    """Move to a name that a writer may just have made a folder of."""
    while True:
        try:
            os.rename(source, target)
            return
        except OSError:
            shutil.rmtree(target, ignore_errors=True)


def test_a_folder_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "workspace"
    outside.mkdir()
    (outside / "a.txt").write_text("outside")
    workspace = Workspace(root)
    workspace.write("folder/a.txt", b"inside")
    (root / "link").symlink_to(outside)
    seen: set[bytes] = set()

    def swap() -> None:
        os.rename(root / "folder", root / "kept")
        _move(root / "link", root / "folder")
        os.rename(root / "folder", root / "link")
        _move(root / "kept", root / "folder")

    with _meanwhile(swap):
        for _ in range(ROUNDS):
            try:
                with workspace.open_file("folder/a.txt") as file:
                    seen.add(file.read())
                workspace.write("folder/b.txt", b"written")
                list(workspace.entries("folder"))
            except WorkspaceError:
                pass
    assert seen == {b"inside"}
    assert os.listdir(outside) == ["a.txt"]


def test_a_file_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside.txt", tmp_path / "workspace"
    outside.write_text("outside")
    workspace = Workspace(root)
    workspace.write("a.txt", b"inside")
    seen: set[bytes] = set()

    def swap() -> None:
        (root / "next").symlink_to(outside)
        os.replace(root / "next", root / "a.txt")
        (root / "next").write_bytes(b"inside")
        os.replace(root / "next", root / "a.txt")

    with _meanwhile(swap):
        for _ in range(ROUNDS):
            try:
                with workspace.open_file("a.txt") as file:
                    seen.add(file.read())
                workspace.write("a.txt", b"inside")
            except WorkspaceError:
                pass
    assert seen == {b"inside"}
    assert outside.read_text() == "outside"


def test_readers_see_whole_files_while_one_is_replaced(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "workspace")
    versions = [letter * 100_000 for letter in (b"a", b"b")]
    workspace.write("a.txt", versions[0])

    def replace() -> None:
        for version in versions:
            workspace.write("a.txt", version)

    with _meanwhile(replace):
        for _ in range(200):
            with workspace.open_file("a.txt") as file:
                assert file.read() in versions


def test_edits_side_by_side_all_arrive(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "workspace")
    count = 40
    workspace.write("a.txt", "".join(f"<{i}>" for i in range(count)).encode())

    def edit(i: int) -> str:
        arguments = EditArguments(path="a.txt", old_string=f"<{i}>", new_string=f"[{i}]")
        return edit_file(workspace, arguments, Allowance())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(edit, range(count)))
    with workspace.open_file("a.txt") as file:
        assert file.read().decode() == "".join(f"[{i}]" for i in range(count))


def test_a_writer_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "workspace")
    with workspace.exclusive("a.txt", Allowance()), ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(workspace.write, "a.txt", b"", Allowance(seconds=0.01))
        with pytest.raises(WorkspaceError, match="is being written by another call"):
            attempt.result()


async def test_a_cancelled_caller_finds_nothing_written_afterwards(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "workspace")
    workspace.write("a.txt", b"old")
    started, may_go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work(allowance: Allowance) -> None:
        started.set()
        may_go_on.wait(60)
        try:
            workspace.write("a.txt", b"new", allowance)
        finally:
            ended.set()

    caller = asyncio.create_task(in_worker(work))
    await asyncio.to_thread(started.wait)
    caller.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not caller.done()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()
    assert (workspace.root / "a.txt").read_bytes() == b"old"
    assert os.listdir(workspace.root) == ["a.txt"]


async def test_work_that_never_began_is_dropped_when_its_caller_is_cancelled() -> None:
    release = threading.Event()
    began: list[int] = []

    def block(allowance: Allowance) -> None:
        release.wait(60)

    blockers = [asyncio.create_task(in_worker(block)) for _ in range(8)]
    await asyncio.sleep(0)
    waiting = asyncio.create_task(in_worker(lambda allowance: began.append(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    await asyncio.gather(*blockers)
    assert began == []


async def test_time_in_the_queue_does_not_count() -> None:
    release = threading.Event()

    def block(allowance: Allowance) -> None:
        release.wait(60)

    blockers = [asyncio.create_task(in_worker(block)) for _ in range(8)]
    await asyncio.sleep(0)
    waiting = asyncio.create_task(in_worker(lambda allowance: allowance.is_spent, seconds=0.2))
    await asyncio.sleep(0.21)
    release.set()
    assert await waiting is False
    await asyncio.gather(*blockers)


async def test_what_the_work_raises_reaches_the_caller() -> None:
    def work(allowance: Allowance) -> None:
        raise WorkspaceError("no")

    with pytest.raises(WorkspaceError, match="no"):
        await in_worker(work)
