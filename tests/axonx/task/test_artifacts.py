from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from axonx.task import ArtifactRecord
from axonx.task.artifacts import describe_artifact, verify_artifact, verify_untouched
from axonx.task.errors import ArtifactError


@pytest.fixture
def published(tmp_path: Path) -> ArtifactRecord:
    (tmp_path / "data.csv").write_bytes(b"a,b\r\n")
    return describe_artifact(tmp_path, "table", "data.csv")


def test_a_file_is_described_by_size_hash_and_revision(tmp_path: Path, published: ArtifactRecord):
    assert published.size == 5
    assert published.sha256 == hashlib.sha256(b"a,b\r\n").hexdigest()
    assert published.revision == f"{(tmp_path / 'data.csv').stat().st_mtime_ns}:5"
    assert verify_artifact(tmp_path, "table", published) == published


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../b", "./a", "a//b", "a/", "a\\b", "C:/x", "", "a\0b"]
)
def test_paths_that_are_not_relative_to_the_task_are_refused(tmp_path: Path, path: str):
    with pytest.raises(ValidationError):
        ArtifactRecord(path=path, size=0, revision="1:1")
    if path:
        with pytest.raises(ValueError, match="Artifact must be a relative task path"):
            describe_artifact(tmp_path, "table", path)


@pytest.mark.parametrize("path", ["metadata.json", "events.jsonl", "run.log"])
def test_the_records_of_the_task_are_no_artifacts(tmp_path: Path, path: str):
    (tmp_path / path).touch()

    with pytest.raises(ValueError, match=f"reserved for the Task's own records: {path}"):
        describe_artifact(tmp_path, "table", path)


@pytest.mark.parametrize(
    "changes", [{"size": -1}, {"revision": "x"}, {"revision": "1"}, {"sha256": "short"}, {"more": 1}]
)
def test_wrong_fields_of_a_record_are_refused(changes: dict[str, object]):
    with pytest.raises(ValidationError):
        ArtifactRecord.model_validate({"path": "a", "size": 0, "revision": "1:1"} | changes)


def test_a_missing_file_is_named(tmp_path: Path, published: ArtifactRecord):
    (tmp_path / "data.csv").unlink()

    with pytest.raises(ArtifactError, match=r"Artifact 'table' is missing: data\.csv"):
        verify_artifact(tmp_path, "table", published)
    with pytest.raises(ArtifactError, match=r"Artifact 'table' is missing: data\.csv"):
        verify_untouched(tmp_path, "table", published)


def test_another_size_is_told(tmp_path: Path, published: ArtifactRecord):
    (tmp_path / "data.csv").write_bytes(b"a,b\r\n1,2")

    with pytest.raises(ArtifactError, match=r"'table' has changed.*8 bytes, published with 5"):
        verify_artifact(tmp_path, "table", published)
    with pytest.raises(ArtifactError, match="'table' has changed"):
        verify_untouched(tmp_path, "table", published)


def test_other_content_of_the_same_size_and_time_is_told(tmp_path: Path, published: ArtifactRecord):
    path = tmp_path / "data.csv"
    times = path.stat()
    path.write_bytes(b"x,y\r\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    with pytest.raises(ArtifactError, match=r"'table' has changed.*other content of the same size"):
        verify_artifact(tmp_path, "table", published)


def test_a_record_without_hash_is_completed(tmp_path: Path, published: ArtifactRecord):
    by_hand = ArtifactRecord(path="data.csv", size=5, revision="1:1", media_type="text/csv")

    assert verify_artifact(tmp_path, "table", by_hand) == published.model_copy(
        update={"media_type": "text/csv"}
    )


def test_links_are_refused_as_file_and_on_the_way(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to("real/file")
    (tmp_path / "directory").symlink_to("real")

    for path in ("link", "directory/file"):
        with pytest.raises(ArtifactError, match="must not pass through a link"):
            describe_artifact(tmp_path, "table", path)


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path: Path):
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")

    for path in ("directory", "pipe"):
        with pytest.raises(ArtifactError, match=r"not a regular file|cannot be read"):
            describe_artifact(tmp_path, "table", path)
