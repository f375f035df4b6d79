"""Outlines of texts."""

from __future__ import annotations

from deerflow.models.outline import outline


def test_headings_come_with_the_first_sentence_below_them() -> None:
    text = "# Top\nHello **world**, v1.2 [here](x). More.\n\n## Sub ##\n\n- an item. x\n\n"
    text += "Other\n=====\nLast line\nruns on"
    assert outline("a.md", text).splitlines() == [
        "a.md: 3 headings, 20 words",
        "- Top: Hello world, v1.2 here.",
        "- Sub: an item.",
        "- Other: Last line runs on",
    ]


def test_heading_without_text_says_so() -> None:
    assert outline("a.md", "# A\n## B\nText.").splitlines()[1:] == ["- A: (no text)", "- B: Text."]


def test_a_table_is_not_taken_for_a_sentence() -> None:
    assert outline("a.md", "# Sizes\n\n| a | b |\n|---|---|\n| 1 | 2 |\n").endswith("- Sizes: (a table)")


def test_code_and_front_matter_hold_no_headings() -> None:
    text = "---\ntitle: x\n---\n# One\n```\n# comment\n```\n~~~sh\n# more\n~~~\nText."
    assert outline("a.md", text).splitlines()[1:] == ["- One: Text."]


def test_comments_of_programs_are_no_headings() -> None:
    assert outline("a.py", "# comment\nimport x").splitlines() == [
        "a.py: 0 headings, 4 words",
        "- # comment import x",
    ]


def test_text_without_headings_is_shown_by_its_first_sentence() -> None:
    assert outline("a.txt", "One two. Three.").splitlines() == ["a.txt: 0 headings, 3 words", "- One two."]
    assert outline("a.md", " \n").splitlines() == ["a.md: 0 headings, 0 words", "- (empty)"]


def test_other_scripts_have_sentences_too() -> None:
    assert outline("a.md", "# 标题\n第一句。第二句。").splitlines()[1:] == ["- 标题: 第一句。"]


def test_long_sentences_are_cut_visibly() -> None:
    line = outline("a.md", "# A\n" + "word " * 200).splitlines()[1]
    assert line.endswith("…")
    assert len(line) < 320


def test_note_stands_beside_the_counts() -> None:
    assert outline("a.md", "# A", note="a part") == "a.md: 1 heading, 2 words (a part)\n- A: (no text)"
