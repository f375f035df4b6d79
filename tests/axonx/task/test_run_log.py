from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonx.task.run_log import read_log_window


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_bytes(b"0123456789")
    return path


def test_a_window_says_where_it_stands(log: Path):
    window = read_log_window(log, 2, 3)

    assert window.content == "234"
    assert (window.start_offset, window.next_offset, window.file_size) == (2, 5, 10)
    assert window.has_more_before and window.has_more_after and not window.reset


def test_a_negative_offset_reads_the_end(log: Path):
    window = read_log_window(log, -1, 4)

    assert window.content == "6789"
    assert (window.start_offset, window.next_offset) == (6, 10)
    assert window.has_more_before and not window.has_more_after


def test_the_end_of_the_log_has_no_content_and_no_more(log: Path):
    window = read_log_window(log, 10)

    assert window.content == ""
    assert window.next_offset == 10
    assert not window.has_more_after


def test_a_log_that_was_replaced_is_read_from_its_beginning(log: Path):
    window = read_log_window(log, 11)

    assert window.reset
    assert (window.content, window.start_offset) == ("0123456789", 0)


def test_a_missing_log_is_empty(tmp_path: Path):
    assert read_log_window(tmp_path / "none").content == ""
    assert not read_log_window(tmp_path / "none").reset
    assert read_log_window(tmp_path / "none", 5).reset


def test_bytes_that_are_no_text_are_replaced(log: Path):
    log.write_bytes(b"a\xff\xfeb")

    assert read_log_window(log, 0).content == "a��b"


@pytest.mark.parametrize("limit", [0, -1, 262_145])
def test_the_size_of_a_window_is_bounded(log: Path, limit: int):
    with pytest.raises(ValueError, match="limit must be between 1 and 262144"):
        read_log_window(log, 0, limit)


@given(text=st.text(max_size=60), limit=st.integers(4, 40))
def test_reading_window_after_window_gives_the_whole_text(
    tmp_path_factory: pytest.TempPathFactory, text: str, limit: int
):
    path = tmp_path_factory.getbasetemp() / "windows.log"
    path.write_bytes(text.encode())
    parts: list[str] = []
    offset = 0
    while window := read_log_window(path, offset, limit):
        assert window.start_offset == offset
        parts.append(window.content)
        offset = window.next_offset
        if not window.has_more_after:
            break

    assert "".join(parts) == text
    assert text.endswith(read_log_window(path, -1, limit).content)
