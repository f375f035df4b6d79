"""Patterns of paths, matched name by name on the way down, so a walk skips what cannot match."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Final

from deerflow.agents.text import quoted
from deerflow.agents.workspace.errors import WorkspaceError

MAX_PATTERN_CHARACTERS: Final = 500
_MAX_ALTERNATIVES: Final = 64

Reached = frozenset[tuple[int, int]]
"""How far a path has come: in which alternative, and how many of its names are matched."""


class PathPattern:
    """`*`, `?` and `[abc]` within a name, `**` for any number of folders, `{a,b}` for alternatives.

    Upper and lower case differ. Raises `WorkspaceError` for what is too long or leads upwards.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise WorkspaceError(f"the pattern has more than {MAX_PATTERN_CHARACTERS} characters: shorten it")
        alternatives = _alternatives(pattern)
        if len(alternatives) > _MAX_ALTERNATIVES:
            raise WorkspaceError(
                f"the pattern {quoted(pattern)} has more than {_MAX_ALTERNATIVES} alternatives"
            )
        self._matchers = [_matchers(alternative) for alternative in alternatives]
        self.start: Reached = self._with_folders_skipped((which, 0) for which in range(len(alternatives)))

    def step(self, reached: Reached, name: str) -> Reached:
        """Return how far a path is that goes on with `name`; empty where it can match no more."""
        following: list[tuple[int, int]] = []
        for which, position in reached:
            if position == len(self._matchers[which]):
                continue
            matcher = self._matchers[which][position]
            if matcher is None:
                following.append((which, position))
            elif matcher.match(name):
                following.append((which, position + 1))
        return self._with_folders_skipped(following)

    def is_matched(self, reached: Reached) -> bool:
        """Whether a path that came so far matches."""
        return any(position == len(self._matchers[which]) for which, position in reached)

    def _with_folders_skipped(self, positions: Iterable[tuple[int, int]]) -> Reached:
        """Let each `**` stand for no folder at all as well."""
        reached = set()
        for which, position in positions:
            reached.add((which, position))
            matchers = self._matchers[which]
            while position < len(matchers) and matchers[position] is None:
                position += 1
                reached.add((which, position))
        return frozenset(reached)


def _matchers(pattern: str) -> list[re.Pattern[str] | None]:
    """Return one matcher per name of the pattern, None for `**`."""
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise WorkspaceError(f"{quoted(pattern)} may leave the workspace: write the pattern without '..'")
    return [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns that `{a,b}` stands for; unbalanced braces stand for themselves."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found or "," not in found[1]:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    expanded: list[str] = []
    for choice in found[1].split(","):
        expanded += _alternatives(before + choice + after)
        if len(expanded) > _MAX_ALTERNATIVES:
            break
    return expanded
