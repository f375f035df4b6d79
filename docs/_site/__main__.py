"""Write every page of the site into a folder: `python docs/_site TARGET`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import commands
import configuration
import log_lines
import routes
from repository_links import ROOT, BrokenLinkError, with_site_links

DOCS = ROOT / "docs"
# Pages that stand elsewhere in the repository, by their place in the site.
ELSEWHERE = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "contract.md": "extension_api/README.md",
    **{
        f"examples/{readme.parent.name}.md": readme.relative_to(ROOT).as_posix()
        for readme in sorted(ROOT.glob("examples/*/README.md"))
    },
}
GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands.markdown,
    "configuration": configuration.markdown,
    "log": log_lines.markdown,
    "routes": routes.markdown,
}


def main(target: Path) -> None:
    """Write the pages; a link to a file that is not there ends the process with its name."""
    shutil.rmtree(target, ignore_errors=True)
    sources = page_sources()
    places = {source: place for place, source in sources.items()}
    for place, source in sources.items():
        page = target / place
        page.parent.mkdir(parents=True, exist_ok=True)
        text = _with_generated((ROOT / source).read_text("utf-8"))
        page.write_text(with_site_links(text, PurePosixPath(source), PurePosixPath(place), places), "utf-8")


def page_sources() -> dict[str, str]:
    """The file of the repository behind each page of the site."""
    own = (page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md")))
    return {**{place: f"docs/{place}" for place in own}, **ELSEWHERE}


def _with_generated(text: str) -> str:
    for name, generate in GENERATED.items():
        marker = f"<!-- generated: {name} -->"
        if marker in text:
            text = text.replace(marker, generate())
    return text


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except BrokenLinkError as error:
        sys.exit(str(error))
