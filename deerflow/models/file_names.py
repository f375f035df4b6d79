"""Finding the files that a message names."""

from __future__ import annotations

import re

_QUOTED = re.compile(
    r"""`([^`\n]{1,400})` | "([^"\n]{1,400})" | “([^”\n]{1,400})” | „([^“”\n]{1,400})[“”]
      | «([^»\n]{1,400})» | 「([^」\n]{1,400})」 | (?<!\w)'([^'\n]{1,400})'(?!\w)""",
    re.VERBOSE,
)
_SEPARATORS = re.compile(r"[\s,;，、；。！？：（）()\[\]{}<>《》|*\"“”„«»`]+")
_EXTENSION = re.compile(r"(?=[0-9]*[A-Za-z])[A-Za-z0-9]{1,10}")
_ABBREVIATION = re.compile(r"(?:\w\.)+\w")
_LONGEST = 400


def find_file_names(text: str) -> list[str]:
    """Return the names in `text` that look like paths with an extension: in order, without repetition.

    Quoted names may hold blanks; bare ones end at blanks, brackets, commas and the like. URLs, mail
    addresses, abbreviations and version numbers are none.
    """
    found: dict[int, str] = {}
    rest = _QUOTED.sub(lambda match: _take_quoted(match, found), text)
    for match in _words(rest):
        word = match[1].lstrip("'").rstrip("'.:!?")
        if _is_path(word) and "@" not in word and not _ABBREVIATION.fullmatch(word):
            found[match[0]] = word
    return list(dict.fromkeys(found[position] for position in sorted(found)))


def _take_quoted(match: re.Match[str], found: dict[int, str]) -> str:
    """Note a quoted name, and return blanks of its length: positions stay comparable."""
    quoted = next(group for group in match.groups() if group is not None).strip()
    parts = quoted.split()
    if not _is_path(quoted) or any(_is_path(part.strip(",;")) for part in parts[:-1]):
        return match[0]
    found[match.start()] = quoted
    return " " * len(match[0])


def _words(text: str) -> list[tuple[int, str]]:
    words, start = [], 0
    for separator in _SEPARATORS.finditer(text):
        words.append((start, text[start : separator.start()]))
        start = separator.end()
    words.append((start, text[start:]))
    return [(position, word) for position, word in words if 2 < len(word) <= _LONGEST]


def _is_path(name: str) -> bool:
    stem, _, extension = re.split(r"[/\\]", name)[-1].rpartition(".")
    return "://" not in name and bool(stem.strip(". ")) and _EXTENSION.fullmatch(extension) is not None
