"""Pages of the documentation as blocks of code, and what makes them run."""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from fastapi.testclient import TestClient

from axonx.cli.main import run as axonx
from deerflow.cli.main import run as deerflow
from deerflow.gateway.app import create_app

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# ([\w./-]+\.\w+)\n")
_GATEWAY = "http://127.0.0.1:8001"


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and on which line of the page it begins."""

    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        """The name of the file that the block is, where its first line says so."""
        named = _FILE_NAME.match(self.text)
        return named[1] if named else None


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, from top to bottom."""
    text = page.read_text("utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in _FENCE.finditer(text)
    ]


def commands_of(block: Block) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it is to print; none of other blocks."""
    if block.language != "console" or not block.text.startswith("$ "):
        return []
    commands: list[tuple[str, list[str]]] = []
    for line in block.text.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            commands.append((line[2:].strip(), []))
        else:
            commands[-1][1].append(line)
    return commands


def differs(printed: str, expected: list[str]) -> str:
    """What was printed, where it is not what was expected; `...` stands for anything, also for lines."""
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n"
        for line in expected
    )
    return "" if re.fullmatch(pattern, printed) else printed or "(nothing)"


class _Both(io.StringIO):
    """Standard output, which also goes to the terminal."""

    def __init__(self, terminal: io.StringIO) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        self._terminal.write(text)
        return super().write(text)


@dataclass
class Shell:
    """Runs `deerflow`, `axonx` and `curl` in this process, in the working directory."""

    variables: dict[str, str] = field(default_factory=dict)
    _gateway: TestClient | None = None
    _exit: ExitStack = field(default_factory=ExitStack)

    def run(self, line: str) -> str:
        """What a command prints, on standard output and standard error as they come."""
        terminal = io.StringIO()
        stdout = _Both(terminal)
        assigned = re.fullmatch(r"(\w+)=\$\((.*)\)", line)
        with redirect_stdout(stdout), redirect_stderr(terminal):
            self._command(self._words(assigned[2] if assigned else line))
        if assigned is None:
            return terminal.getvalue()
        self.variables[assigned[1]] = stdout.getvalue().strip()
        return terminal.getvalue().removesuffix(stdout.getvalue())

    def close(self) -> None:
        """Stop the Gateway, where one was started."""
        self._gateway = None
        self._exit.close()

    def _words(self, line: str) -> list[str]:
        for name, value in self.variables.items():
            line = line.replace(f"${name}", value)
        return shlex.split(line)

    def _command(self, words: list[str]) -> None:
        match words:
            case ["deerflow", "serve"] | ["deerflow", "serve", "--config", _]:
                self.close()
                config = words[3] if len(words) > 2 else None
                self._gateway = self._exit.enter_context(TestClient(create_app(config), base_url=_GATEWAY))
            case ["deerflow", *arguments]:
                deerflow(arguments)
            case ["axonx", *arguments]:
                axonx(arguments)
            case ["curl", *arguments]:
                print(self._fetch(arguments))
            case ["ls", folder]:
                print(*sorted(os.listdir(folder)), sep="\n")
            case _:
                raise AssertionError(
                    f"no page may show `{shlex.join(words)}`: nobody would notice when it breaks"
                )

    def _fetch(self, arguments: list[str]) -> str:
        assert self._gateway is not None, "a page has to show `deerflow serve` before it calls the Gateway"
        method, url, headers, body, shows_head = "GET", "", {}, None, False
        words = iter(arguments)
        for word in words:
            match word:
                case "-s":
                    pass
                case "-i":
                    shows_head = True
                case "-X":
                    method = next(words)
                case "-H":
                    name, _, value = next(words).partition(":")
                    headers[name] = value.strip()
                case "--json":
                    body, method = next(words), "POST"
                    headers["content-type"] = "application/json"
                case _:
                    url = word
        assert url.startswith(_GATEWAY), url
        self._gateway.cookies.clear()
        answer = self._gateway.request(method, url, headers=headers, content=body)
        return "\n".join(
            [*(_head(answer.status_code, answer.headers) if shows_head else ()), answer.text.rstrip()]
        )


def _head(status: int, headers: object) -> Iterator[str]:
    yield f"HTTP/1.1 {status}"
