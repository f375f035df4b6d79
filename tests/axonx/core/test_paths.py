"""Paths that come from outside stay in the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.axonx_app import step_app

from axonx import BaseStep
from axonx.core.paths import confined
from axonx.errors import PathOutsideWorkspaceError


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    workspace = tmp_path / "workspace"
    (workspace / "inside").mkdir(parents=True)
    (workspace / "inside" / "file").write_text("mine")
    (workspace / "out").symlink_to(tmp_path)
    (workspace / "in").symlink_to(workspace / "inside")
    return workspace


CLIMBING = ("../secret", "inside/../../secret", "out/secret", "out")
ABSOLUTE = ("/etc/passwd", "~", "~root/x", "C:\\x", "..\\secret")
EMPTY = ("", ".", "a\0")


@pytest.mark.parametrize("path", (*CLIMBING, *ABSOLUTE, *EMPTY))
def test_a_path_that_leaves_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(PathOutsideWorkspaceError):
        confined(workspace, path)


@pytest.mark.parametrize(
    ("path", "real"), [("inside/file", "inside/file"), ("in/file", "inside/file"), ("a/b", "a/b")]
)
def test_a_path_that_stays_is_resolved(workspace: Path, path: str, real: str) -> None:
    assert confined(workspace, path) == workspace.resolve() / real


async def test_a_step_that_is_given_a_path_fails_without_touching_what_is_outside(workspace: Path) -> None:
    async def body(step: BaseStep) -> None:
        step.response.answer = step.workspace_file(step.context["path"]).read_text()

    async with step_app(workspace, body) as app:
        assert (await app.run_job("job", {"path": "in/file"})).answer == "mine"
        for path in ("../secret", "out/secret", str(workspace.parent / "secret"), "OUT/../../secret", "~/x"):
            response = await app.run_job("job", {"path": path})
            assert not response.success
            assert response.answer.startswith("PathOutsideWorkspaceError")
