"""An outline of a text: its headings with their first sentence, and its length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from markdown_it import MarkdownIt
from markdown_it.token import Token

from deerflow.models.conversation import count_words

_WITH_HEADINGS = frozenset({".md", ".markdown", ".mdx", ".txt"})  # elsewhere `#` may begin a comment
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?…](?=\s|$)|[。！？]")
_LONGEST_SENTENCE = 300
_TABLE_CELLS = frozenset({"th_open", "td_open"})
_markdown = MarkdownIt("commonmark").enable("table")


def outline(name: str, text: str, note: str = "") -> str:
    """Return a report on `text`: a line with its counts and `note`, then one line per heading.

    A text without headings is represented by its first sentence. `name` decides whether it is Markdown.
    """
    is_markdown = PurePath(name).suffix.lower() in _WITH_HEADINGS
    headings = list(_headings(text)) if is_markdown else []
    counts = f"{_counted(len(headings), 'heading')}, {_counted(count_words(text), 'word')}"
    lines = [f"{name}: {counts}" + (f" ({note})" if note else "")]
    if headings:
        lines += [f"- {title or '(untitled)'}: {sentence or '(no text)'}" for title, sentence in headings]
    else:
        lines.append(f"- {_first_sentence(text) or '(empty)'}")
    return "\n".join(lines)


def _headings(text: str) -> Iterator[tuple[str, str]]:
    """Yield each heading with the first sentence below it, or with the word that a table is there."""
    title: str | None = None
    sentence = ""
    kind = ""
    for token in _markdown.parse(_FRONT_MATTER.sub("", text)):
        if token.type != "inline":
            kind = token.type
        elif kind == "heading_open":
            if title is not None:
                yield title, sentence
            title, sentence = _plain(token), ""
        elif not sentence:
            sentence = "(a table)" if kind in _TABLE_CELLS else _first_sentence(_plain(token))
    if title is not None:
        yield title, sentence


def _plain(token: Token) -> str:
    """Return the text that a reader sees, on one line."""
    texts = {"softbreak": " ", "hardbreak": " "}
    parts = (texts.get(part.type) or part.content for part in token.children or () if part.type != "image")
    return " ".join("".join(parts).split())


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    end = _SENTENCE_END.search(paragraph)
    sentence = paragraph[: end.end()] if end else paragraph
    return sentence if len(sentence) <= _LONGEST_SENTENCE else sentence[:_LONGEST_SENTENCE].rstrip() + "…"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
