"""Files of a Job on their way into the thread's workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import StepBody, step_app
from support.bridging import Caller, open_bridge, workspace_in

from axonx import BaseStep
from axonx.components.job import ArtifactEvent
from deerflow.agents.workspace import Workspace


def publishing(*files: tuple[str, str], answer: str = "done", success: bool = True) -> StepBody:
    """A Step that writes and publishes files, one after the other."""

    async def body(self: BaseStep) -> None:
        for path, content in files:
            file = self.workspace_file(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
            await self.emit(ArtifactEvent(path=path, media_type="text/plain"))
        self.response.answer = answer
        self.response.success = success

    return body


def read(workspace: Workspace, path: str) -> str:
    with workspace.open_file(path) as file:
        return file.read().decode()


async def call(tmp_path: Path, body: StepBody, caller: Caller, **options: Any) -> Any:
    async with open_bridge(step_app(tmp_path / "application", body), **options) as opened:
        return await opened.call("job", {}, caller)


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    return Caller(workspace_in(tmp_path))


async def test_a_published_file_stands_in_the_workspace_and_is_named(tmp_path: Path, caller: Caller) -> None:
    message = await call(tmp_path, publishing(("out/report.md", "# Report")), caller)
    assert message.content == "done\n\nFile in the workspace: artifacts/report.md (text/plain, 8 bytes)"
    assert message.artifact["files"] == ["artifacts/report.md"]
    assert caller.workspace is not None
    assert read(caller.workspace, "artifacts/report.md") == "# Report"
    assert (tmp_path / "application" / "out" / "report.md").read_text() == "# Report"
    (event,) = caller.told("axonx_artifact")
    assert (event["path"], event["workspace_path"]) == ("out/report.md", "artifacts/report.md")


async def test_files_of_a_failed_job_are_named_with_its_failure(tmp_path: Path, caller: Caller) -> None:
    body = publishing(("partial.txt", "half"), answer="the source broke off", success=False)
    message = await call(tmp_path, body, caller)
    assert message.status == "error"
    assert str(message.content).startswith(
        "Job 'job' failed: the source broke off\n\nFile in the workspace: "
    )


async def test_a_file_replaces_no_other_one(tmp_path: Path, caller: Caller) -> None:
    assert caller.workspace is not None
    caller.workspace.write("artifacts/report.md", b"mine")
    caller.workspace.write("artifacts/report-2.md/inner", b"a folder of that name")
    for _ in range(2):  # the second time the file is there already
        message = await call(tmp_path, publishing(("report.md", "theirs")), caller)
        assert message.artifact["files"] == ["artifacts/report-3.md"]
    assert read(caller.workspace, "artifacts/report.md") == "mine"
    assert read(caller.workspace, "artifacts/report-3.md") == "theirs"


async def test_a_file_that_is_published_again_takes_the_place_of_its_earlier_copy(
    tmp_path: Path, caller: Caller
) -> None:
    message = await call(tmp_path, publishing(("table.csv", "a"), ("table.csv", "a,b")), caller)
    assert message.artifact["files"] == ["artifacts/table.csv"]
    assert caller.workspace is not None
    assert read(caller.workspace, "artifacts/table.csv") == "a,b"


async def test_namesakes_from_two_folders_stand_side_by_side(tmp_path: Path, caller: Caller) -> None:
    message = await call(
        tmp_path, publishing(("a/t.csv", "1"), ("b/t.csv", "2")), caller, artifacts_folder="x/y"
    )
    assert message.artifact["files"] == ["x/y/t.csv", "x/y/t-2.csv"]


async def test_what_cannot_be_copied_is_named_with_the_reason(tmp_path: Path, caller: Caller) -> None:
    async def body(self: BaseStep) -> None:
        await self.emit(ArtifactEvent(path="missing.txt"))
        self.workspace_file("big.txt").write_text("12345")
        await self.emit(ArtifactEvent(path="big.txt"))
        os.mkfifo(self.workspace_file("pipe"))
        await self.emit(ArtifactEvent(path="pipe"))
        self.response.answer = "done"

    message = await call(tmp_path, body, caller, max_artifact_bytes=4)
    assert message.status == "success"
    assert message.content == (
        "done\n\n"
        "File not copied: missing.txt: there is no such file\n"
        "File not copied: big.txt: it has more than 4 bytes\n"
        "File not copied: pipe: 'pipe' is a pipe, not a file"
    )
    assert [event["workspace_path"] for event in caller.told("axonx_artifact")] == [None] * 3
    assert caller.workspace is not None and not caller.workspace.root.exists()


async def test_a_link_that_is_put_in_a_files_place_leads_nowhere(tmp_path: Path, caller: Caller) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")

    async def body(self: BaseStep) -> None:
        (self.workspace_path / "inner").mkdir()
        (self.workspace_path / "inner" / "file").symlink_to(self.workspace_path / "other")
        (self.workspace_path / "other").write_text("fine")
        await self.emit(ArtifactEvent(path="inner/file"))
        self.response.answer = "done"

    message = await call(tmp_path, body, caller)
    assert "File not copied: inner/file: 'inner/file' is a link" in str(message.content)


@pytest.mark.parametrize("folder", ["../up", "~/home", "a/../../b"])
async def test_a_folder_outside_of_the_workspace_is_refused(
    tmp_path: Path, caller: Caller, folder: str
) -> None:
    message = await call(tmp_path, publishing(("a.txt", "a")), caller, artifacts_folder=folder)
    assert "File not copied: a.txt: " in str(message.content)
    assert caller.workspace is not None and not caller.workspace.root.exists()


async def test_without_a_workspace_files_stay_with_the_application(tmp_path: Path) -> None:
    message = await call(tmp_path, publishing(("a.txt", "a")), Caller())
    assert message.content == "done\n\nFile not copied: a.txt: this agent has no workspace"


async def test_one_call_hands_over_a_hundred_files_at_most(tmp_path: Path, caller: Caller) -> None:
    body = publishing(*((f"{number}.txt", str(number)) for number in range(103)))
    message = await call(tmp_path, body, caller)
    assert len(message.artifact["files"]) == 100
    assert str(message.content).count("a call hands over 100 files at most") == 3
