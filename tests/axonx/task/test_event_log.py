from __future__ import annotations

from pathlib import Path

from axonx.components.job import ProgressEvent
from axonx.task.event_log import EventLogWriter, read_events, read_last_events


def write(path: Path, *names: str) -> None:
    writer = EventLogWriter(path)
    for name in names:
        writer.append(ProgressEvent(name=name))
    writer.close()


def names(path: Path, offset: int = 0) -> list[str]:
    return [event.name for event in read_events(path, offset).events]


def test_events_are_there_as_soon_as_they_are_appended(tmp_path: Path):
    writer = EventLogWriter(tmp_path / "events.jsonl")
    writer.append(ProgressEvent(name="a", percentage=5))

    page = read_events(tmp_path / "events.jsonl")

    assert page.events == (ProgressEvent(name="a", percentage=5),)
    writer.append(ProgressEvent(name="b"))
    writer.close()
    assert names(tmp_path / "events.jsonl", page.next_offset) == ["b"]


def test_a_missing_file_has_no_events(tmp_path: Path):
    assert read_events(tmp_path / "none").events == ()
    assert read_last_events(tmp_path / "none").events == ()


def test_a_torn_last_line_waits_for_its_end(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    write(path, "a", "b")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])

    page = read_events(path)

    assert [event.name for event in page.events] == ["a"]
    path.write_bytes(whole)
    assert names(path, page.next_offset) == ["b"]


def test_a_torn_line_does_not_spoil_the_next_one(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    write(path, "a", "b")
    path.write_bytes(path.read_bytes()[:-20])

    write(path, "c")

    assert names(path) == ["a", "c"]


def test_bytes_that_are_no_event_are_skipped(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    write(path, "a")
    with path.open("ab") as file:
        file.write(b"\xff\xfe\n\n[]\n" + b'{"kind":"progress"}\n')
    write(path, "b")

    assert names(path) == ["a", "b"]


def test_a_long_file_is_read_in_pages_and_from_its_end(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    writer = EventLogWriter(path)
    for number in range(300):
        writer.append(ProgressEvent(name=str(number), label="x" * 8000))
    writer.close()

    found: list[str] = []
    offset = 0
    while (page := read_events(path, offset)).events:
        assert len(page.events) < 200
        found += [event.name for event in page.events]
        offset = page.next_offset

    assert found == [str(number) for number in range(300)]
    last = read_last_events(path).events
    assert 50 < len(last) < 200
    assert last[-1].name == "299"


def test_an_event_longer_than_a_page_is_read(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    writer = EventLogWriter(path)
    writer.append(ProgressEvent(name="long", label="x" * 3_000_000))
    writer.append(ProgressEvent(name="next"))
    writer.close()

    page = read_events(path)

    assert [event.name for event in page.events] == ["long"]
    assert names(path, page.next_offset) == ["next"]
