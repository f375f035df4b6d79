"""Links between files of the repository, as links between pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


class BrokenLinkError(Exception):
    """A page links to a file that the repository does not have."""

    def __init__(self, source: PurePosixPath, target: str) -> None:
        super().__init__(f"{source}: {target} is no file of the repository; correct the link")


def with_site_links(
    markdown: str, source: PurePosixPath, place: PurePosixPath, places: Mapping[str, str]
) -> str:
    """`markdown` of the file `source`, shown at `place`. Files that are no pages become plain names."""

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(str(source.parent / link["target"]))
        shown = places.get(target) or places.get(f"{target}/README.md")
        if shown is not None:
            return f"[{link['text']}]({posixpath.relpath(shown, str(place.parent))}{link['anchor'] or ''})"
        if not (ROOT / target).exists():
            raise BrokenLinkError(source, link["target"])
        return link["text"] if link["text"].startswith("`") else f"`{target}`"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)
