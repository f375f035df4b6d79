"""Finding files and lines: what patterns mean, and that no pattern can hold the host up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.agents.file_tools import searching
from deerflow.agents.file_tools.arguments import GlobArguments, GrepArguments
from deerflow.agents.file_tools.report import MAX_CHARACTERS
from deerflow.agents.workspace import Workspace, WorkspaceError, matching, walking
from deerflow.agents.workspace.allowance import AbandonedError, Allowance

ENOUGH_SECONDS = 600
FILES = (
    "README.md",
    "src/app.py",
    "src/web/page.ts",
    "src/web/view.tsx",
    "src/web/deep/er/page.ts",
    "b/[x].md",
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with some files."""
    made = Workspace(tmp_path / "workspace")
    for path in FILES:
        made.write(path, f"here is {path}\n".encode())
    return made


def _glob(workspace: Workspace, pattern: str, path: str = ".") -> list[str]:
    wanted = GlobArguments(pattern=pattern, path=path)
    return searching.find_files(workspace, wanted, Allowance(ENOUGH_SECONDS)).splitlines()


def _grep(workspace: Workspace, pattern: str, allowance: Allowance | None = None, **wanted: Any) -> list[str]:
    arguments = GrepArguments(pattern=pattern, **wanted)
    return searching.search_lines(workspace, arguments, allowance or Allowance(ENOUGH_SECONDS)).splitlines()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["README.md"]),
        ("*.md", ["README.md"]),
        ("**", sorted(FILES)),
        ("**/*.md", ["README.md", "b/[x].md"]),
        ("src/*", ["src/app.py"]),
        ("src/**", ["src/app.py", "src/web/deep/er/page.ts", "src/web/page.ts", "src/web/view.tsx"]),
        ("**/page.ts", ["src/web/deep/er/page.ts", "src/web/page.ts"]),
        ("src/**/*.{ts,tsx}", ["src/web/deep/er/page.ts", "src/web/page.ts", "src/web/view.tsx"]),
        ("{README,src/app}.{md,py}", ["README.md", "src/app.py"]),
        ("**/web/**/page.ts", ["src/web/deep/er/page.ts", "src/web/page.ts"]),
        ("src/web/????.ts", ["src/web/page.ts"]),
        ("**/[a-b]*.py", ["src/app.py"]),
        ("**/[[]x].md", ["b/[x].md"]),
        ("./src//app.py", ["src/app.py"]),
        ("/src/app.py", ["src/app.py"]),
        ("**/**/**/app.py", ["src/app.py"]),
        ("readme.md", ["no file matches 'readme.md' in '.'"]),
        ("{README", ["no file matches '{README' in '.'"]),
    ],
)
def test_patterns_of_paths(workspace: Workspace, pattern: str, found: list[str]) -> None:
    assert _glob(workspace, pattern) == found


def test_a_pattern_starts_from_its_folder(workspace: Workspace) -> None:
    assert _glob(workspace, "*.ts", "src/web") == ["src/web/page.ts"]
    with pytest.raises(WorkspaceError, match="no 'nowhere'"):
        _glob(workspace, "*", "nowhere")


@pytest.mark.parametrize("pattern", ["../*", "**/../../*", "{..,a}/*", "*" * 501, "{a,b}" * 7])
def test_patterns_that_lead_out_or_explode_are_refused(workspace: Workspace, pattern: str) -> None:
    with pytest.raises(WorkspaceError):
        _glob(workspace, pattern)


def test_stars_without_end_are_matched_in_no_time(workspace: Workspace) -> None:
    workspace.write("a" * 200, b"")
    assert _glob(workspace, "*a" * 100 + "b")[0].startswith("no file matches")
    assert _glob(workspace, "**/" * 60 + "a*a") == ["a" * 200]


def test_folders_that_cannot_match_are_not_opened(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    entries = Workspace.entries

    def watched(self: Workspace, path: Any) -> Any:
        opened.append(path)
        return entries(self, path)

    monkeypatch.setattr(Workspace, "entries", watched)
    assert _glob(workspace, "src/*.py") == ["src/app.py"]
    assert opened == [(), ("src",)]


def test_links_are_not_followed_while_searching(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("here is a secret")
    (workspace.root / "out").symlink_to(tmp_path)
    (workspace.root / "loop").symlink_to(workspace.root)
    (workspace.root / "secret.md").symlink_to(tmp_path / "secret.md")
    assert _glob(workspace, "**") == sorted(FILES)
    assert _grep(workspace, "secret") == [f"no line matches 'secret' in {len(FILES)} files searched"]


def test_mounts_are_searched_and_kept_outputs_only_by_name(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "a.md").write_text("here")
    workspace = Workspace(tmp_path / "workspace", {"docs/shown": host})
    workspace.write(".outputs/long.txt", b"here")
    assert _glob(workspace, "**") == ["docs/shown/a.md"]
    assert _grep(workspace, "here") == ["docs/shown/a.md:1: here"]
    assert _grep(workspace, "here", path=".outputs/long.txt") == [".outputs/long.txt:1: here"]


def test_many_files_are_cut_with_a_notice(workspace: Workspace) -> None:
    (workspace.root / "many").mkdir()
    for number in range(searching.MAX_FILES + 1):
        (workspace.root / "many" / f"{number:05}").touch()
    found = _glob(workspace, "many/*")
    assert found[-2:] == ["many/00999", "[cut: there are more files; give a narrower pattern or path]"]
    assert len(found) == searching.MAX_FILES + 1


def test_a_walk_ends_after_so_many_entries_and_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "MAX_VISITED", 3)
    found = _glob(workspace, "**")
    assert found[-1] == "[stopped after 3 files and folders; give a narrower path to see the rest]"
    assert len(found) <= 4


def test_a_search_ends_with_its_time_and_says_so(workspace: Workspace) -> None:
    found = _grep(workspace, "here", Allowance(seconds=0))
    assert found[-1] == "[stopped after 0 s; give a narrower path to see the rest]"
    workspace.write("long.txt", b"x\n" * 500_000)
    assert _grep(workspace, "here", Allowance(seconds=0), path="long.txt")[-1].startswith(
        "[stopped after 0 s"
    )


def test_a_search_ends_when_nobody_waits(workspace: Workspace) -> None:
    allowance = Allowance()
    allowance.abandon()
    with pytest.raises(AbandonedError):
        _grep(workspace, "here", allowance)
    with pytest.raises(AbandonedError):
        searching.find_files(workspace, GlobArguments(pattern="*"), allowance)


def test_what_vanishes_during_a_search_is_counted(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file = Workspace.open_file

    def vanishing(self: Workspace, path: Any) -> Any:
        if path and path[-1] == "app.py":
            (self.root / "src" / "app.py").unlink()
        return open_file(self, path)

    monkeypatch.setattr(Workspace, "open_file", vanishing)
    found = _grep(workspace, "here")
    assert len(found) == len(FILES)
    assert found[-1] == "[files and folders that could not be read: 1]"


def test_lines_are_found_with_path_and_number(workspace: Workspace) -> None:
    workspace.write("src/app.py", b"import os\n\ndef main():\n    os.exit()\n")
    assert _grep(workspace, r"^\s*os\b") == ["src/app.py:4:     os.exit()"]
    assert _grep(workspace, "OS", ignore_case=True, path="src") == [
        "src/app.py:1: import os",
        "src/app.py:4:     os.exit()",
    ]
    assert _grep(workspace, "main()", literal=True, path="src/app.py") == ["src/app.py:3: def main():"]


@pytest.mark.parametrize(
    ("glob", "count"), [("*.md", 2), ("*.{ts,tsx}", 3), ("src/*", 1), ("src/**/page.ts", 2), ("", 6)]
)
def test_only_files_that_match_the_glob_are_searched(workspace: Workspace, glob: str, count: int) -> None:
    assert len(_grep(workspace, "here", glob=glob)) == count


def test_a_match_never_spans_lines(workspace: Workspace) -> None:
    workspace.write("a.txt", b"one\ntwo\n\nthree")
    for pattern in (r"one\stwo", "one[^x]*two", "(?s)one.*two", "one\ntwo"):
        assert _grep(workspace, pattern, path="a.txt")[0].startswith("no line matches")
    assert _grep(workspace, "^t[^x]*$", path="a.txt") == ["a.txt:2: two", "a.txt:4: three"]
    assert len(_grep(workspace, "^", path="a.txt")) == 4


@pytest.mark.parametrize(
    "pattern", ["(?=x)", r"(\w)\1", "[", "(", "a{99999999}", "((a{100}){100}){100}", "x" * 1001]
)
def test_expressions_that_could_run_away_or_are_wrong_are_refused(workspace: Workspace, pattern: str) -> None:
    with pytest.raises(WorkspaceError, match=r"RE2 syntax|more than 1000 characters"):
        _grep(workspace, pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "((a*)*)*c", "(.*)(.*)(.*)(.*)(.*)z", "(" * 400 + "a" + ")" * 400]
)
def test_expressions_that_backtrack_elsewhere_end_here(workspace: Workspace, pattern: str) -> None:
    workspace.write("a.txt", b"a" * 100_000 + b"!")
    assert len(_grep(workspace, pattern, path="a.txt")) == 1


def test_a_long_line_is_shown_around_its_match(workspace: Workspace) -> None:
    workspace.write("a.txt", ("é" * 5000 + "needle" + "ü" * 5000).encode())
    (found,) = _grep(workspace, "needle", path="a.txt")
    assert found.startswith("a.txt:1: …é")
    assert "éneedleü" in found
    assert found.endswith("ü…")
    assert len(found) == len("a.txt:1: ") + matching.MAX_SHOWN_CHARACTERS + 2


def test_a_line_of_many_pieces_is_found_once_and_lines_after_it_keep_their_numbers(
    workspace: Workspace,
) -> None:
    piece = matching.MAX_PIECE_CHARACTERS
    text = f"first\n{'x' * (piece - 3)}needle{'y' * piece}needle\nlast needle"
    workspace.write("a.txt", text.encode())
    found = _grep(workspace, "needle", path="a.txt")
    assert [line.split(":")[1] for line in found] == ["2", "3"]
    assert "xneedley" in found[0]


def test_a_match_where_two_pieces_of_a_line_meet_is_found(workspace: Workspace) -> None:
    piece = matching.MAX_PIECE_CHARACTERS
    workspace.write("a.txt", b"x" * (piece - 3) + b"needle" + b"x" * piece)
    assert "xneedlex" in _grep(workspace, "needle", path="a.txt")[0]


def test_a_line_of_20_megabytes_and_300_000_lines_are_searched(workspace: Workspace) -> None:
    workspace.write("one.json", b"[" + b"1,2,3," * 3_300_000 + b"needle]")
    workspace.write("many.log", b"".join(b"line %d\n" % i for i in range(300_000)))
    assert _grep(workspace, r"needle|line 29999\d$")[-1].startswith("one.json:1: …")
    assert _grep(workspace, r"line 29999\d$", path="many.log")[-1] == "many.log:300000: line 299999"


def test_many_lines_are_cut_with_a_notice(workspace: Workspace) -> None:
    workspace.write("a.txt", b"x\n" * 1000)
    found = _grep(workspace, "x", path="a.txt")
    assert found[-2:] == [
        f"a.txt:{searching.MAX_LINES}: x",
        "[cut: there are more lines; give a narrower pattern, path or glob]",
    ]


def test_long_lines_stay_within_the_limit_together(workspace: Workspace) -> None:
    workspace.write("a.txt", (b"x" * 400 + b"\n") * 1000)
    result = searching.search_lines(workspace, GrepArguments(pattern="x", path="a.txt"), Allowance())
    assert MAX_CHARACTERS - 2000 < len(result) <= MAX_CHARACTERS


def test_other_encodings_are_searched_and_binary_files_counted(workspace: Workspace) -> None:
    workspace.write("utf16.txt", "größer\r\n".encode("utf-16"))
    workspace.write("latin.txt", b"gr\xf6\xdfer\n")
    workspace.write("image.png", b"\x89PNG\0gr\xc3\xb6\xc3\x9fer")
    assert _grep(workspace, "^gr.*er$") == [
        "latin.txt:1: gr\ufffd\ufffder",
        "utf16.txt:1: größer",
        "[binary files, not searched: 1]",
    ]
    with pytest.raises(WorkspaceError, match="is a binary file"):
        _grep(workspace, "x", path="image.png")


def test_groups_are_not_kept_per_match() -> None:
    assert matching.compiled("(a)(b)", is_literal=False, ignores_case=False).groups == 0


def test_an_expression_is_forgotten_after_its_search(workspace: Workspace) -> None:
    _grep(workspace, "here")
    cached = matching.re2._Regexp._make.cache_info()  # the only way to see what it holds on to
    assert cached.currsize == 0
