"""Files in frames, without a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from axonx.errors import PathOutsideWorkspaceError
from axonx.task.cluster.files import FileReceiver, regular_files, send_files
from axonx.task.cluster.frames import CHUNK_BYTES, FrameKind


async def sent(workspace: Path, *paths: Path) -> list[tuple[FrameKind, Any]]:
    frames: list[tuple[FrameKind, Any]] = []

    async def send(kind: FrameKind, payload: Any) -> None:
        frames.append((kind, payload))

    await send_files(send, workspace, paths)
    return frames


async def test_files_arrive_as_they_were_in_bounded_frames(tmp_path: Path):
    here, there = tmp_path / "here", tmp_path / "there"
    big, empty = here / "a" / "big", here / "empty"
    big.parent.mkdir(parents=True)
    there.mkdir()
    big.write_bytes(os.urandom(2 * CHUNK_BYTES + 1))
    big.chmod(0o755)
    empty.touch()
    os.utime(big, ns=(1, 1_234_567_890_123_456_789))

    frames = await sent(here, big, empty)
    receiver = FileReceiver(there)
    for kind, payload in frames:
        receiver.take(kind, payload)

    assert max(len(payload) for kind, payload in frames if kind == FrameKind.DATA) == CHUNK_BYTES
    assert (there / "a" / "big").read_bytes() == big.read_bytes()
    status = (there / "a" / "big").stat()
    assert (status.st_mtime_ns, status.st_mode) == (1_234_567_890_123_456_789, big.stat().st_mode)
    assert (there / "empty").read_bytes() == b""
    assert receiver.received["a/big"] == (2 * CHUNK_BYTES + 1, 1_234_567_890_123_456_789)


async def test_a_file_that_does_not_come_to_its_end_leaves_nothing(tmp_path: Path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "one").write_text("new")
    (there / "one").write_text("old")

    receiver = FileReceiver(there)
    for kind, payload in (await sent(here, here / "one"))[:-1]:
        receiver.take(kind, payload)
    receiver.discard()

    assert [path.name for path in there.iterdir()] == ["one"]
    assert (there / "one").read_text() == "old"


@pytest.mark.parametrize("path", ["../out", "/out", "link/out"])
@pytest.mark.parametrize("kind", [FrameKind.FILE, FrameKind.GONE])
def test_no_frame_leads_out_of_the_workspace(tmp_path: Path, kind: FrameKind, path: str):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    payload = {"path": path, "mtime_ns": 0, "mode": 0o644} if kind == FrameKind.FILE else path

    with pytest.raises(PathOutsideWorkspaceError):
        FileReceiver(workspace).take(kind, payload)

    assert [each.name for each in tmp_path.iterdir()] == ["workspace"]


def test_links_and_the_frameworks_own_files_stay_where_they_are(tmp_path: Path):
    for name in ("metadata.json", "run.log", "table.csv"):
        (tmp_path / name).touch()
    (tmp_path / "persistent").mkdir()
    (tmp_path / "persistent" / "run.log").touch()
    (tmp_path / "link").symlink_to(tmp_path / "table.csv")

    found = [path.relative_to(tmp_path).as_posix() for path in regular_files(tmp_path)]

    assert found == ["table.csv", "persistent/run.log"]
