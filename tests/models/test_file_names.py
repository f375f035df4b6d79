"""Which words of a message name a file."""

from __future__ import annotations

import pytest

from deerflow.models.file_names import find_file_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Outline README.md and docs/ARCH.md.", ["README.md", "docs/ARCH.md"]),
        (
            "a1.md, b2.md;c3.md (d4.md) [e5.md] <f6.md>",
            ["a1.md", "b2.md", "c3.md", "d4.md", "e5.md", "f6.md"],
        ),
        ("twice.md once.md twice.md", ["twice.md", "once.md"]),
        ("b.txt 'my notes.md' aa.txt", ["b.txt", "my notes.md", "aa.txt"]),
        ('read "my notes.md", `x y.txt` and “third one.md”', ["my notes.md", "x y.txt", "third one.md"]),
        ('first.md "second one.md" third.md', ["first.md", "second one.md", "third.md"]),
        ("总结 报告.md、指南.txt。", ["报告.md", "指南.txt"]),
        ("「报告 一.md」と Übersicht.md?", ["报告 一.md", "Übersicht.md"]),
        ("**bold.md** and [link](target.md)", ["bold.md", "target.md"]),
        ("./x.md ../y.md /abs/z.md C:\\w\\v.md", ["./x.md", "../y.md", "/abs/z.md", "C:\\w\\v.md"]),
        (
            "archive.tar.gz file-1_2.7z song.mp3 .config/x.toml",
            ["archive.tar.gz", "file-1_2.7z", "song.mp3", ".config/x.toml"],
        ),
        ('"aa.md, bb.md"', ["aa.md", "bb.md"]),
        ("don't read notes.md, it's mine", ["notes.md"]),
        ("Is it README.md?! Yes: README.txt:", ["README.md", "README.txt"]),
    ],
)
def test_paths_with_an_extension_are_found_in_order(text: str, names: list[str]) -> None:
    assert find_file_names(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello there",
        "e.g. this, i.e. that, z.B. u.s.w.",
        "version 1.2.3 and 3.14 and v1.2",
        "https://example.org/page.html",
        "me@example.org",
        "the .md files",
        "Wait... what.",
        "a/b/c",
        '"quoted words. And more"',
    ],
)
def test_other_words_name_no_file(text: str) -> None:
    assert find_file_names(text) == []


@pytest.mark.parametrize(
    "text", ["x" * 10**6, '"' * 10**6, "." * 10**6, " " * 10**6, "a.b" * 300_000, "'a " * 300_000]
)
def test_long_texts_are_read_in_moments(text: str) -> None:
    assert find_file_names(text + " end.md")[-1:] == ["end.md"]


def test_lone_surrogates_are_text() -> None:
    assert find_file_names("\ud835.md x\ud835y.md") == ["\ud835.md", "x\ud835y.md"]
