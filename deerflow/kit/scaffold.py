"""Write a new extension: a distribution that passes its own tests at once."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Final

from deerflow_extension_api import API_VERSION

from deerflow.kit.errors import KitError, WrongUseError

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME: Final = 64
_RESERVED: Final = frozenset({"deerflow", "deerflow_extension_api", "axonx", "test", "tests"})
_SUFFIX: Final = ".template"


@dataclass(frozen=True)
class Kind:
    """One kind of contribution: its module, what `install` registers, and what else it depends on."""

    name: str
    module: str
    imported: str
    registration: str
    sees: str
    dependency: str | None = None


KINDS: Final = (
    Kind(
        "middleware",
        "middleware",
        "ToolCallMiddlewares",
        "registry.middlewares(ToolCallMiddlewares())",
        "each tool call of the lead agent and of every subagent",
        "langchain>=1.5",
    ),
    Kind(
        "lifecycle",
        "lifecycle",
        "TaskCounts",
        "registry.task_lifecycle(TaskCounts())",
        "the start and the end of each execution of an agent",
    ),
    Kind(
        "system-calls",
        "system_calls",
        "SystemCallCounts",
        "registry.system_model_observer(SystemCallCounts())",
        "model calls of the host's own, such as titles",
    ),
    Kind(
        "assemblies",
        "assemblies",
        "AssemblyCounts",
        "registry.agent_assembly_observer(AssemblyCounts())",
        "what each assembled agent consists of",
    ),
    Kind(
        "compactions",
        "compactions",
        "CompactionCounts",
        "registry.context_compaction_observer(CompactionCounts())",
        "summaries that take the place of older messages",
    ),
    Kind(
        "service",
        "service",
        "Report",
        'registry.service(Report(config.get("report", "stdout")))',
        "the start and the end of the host; says then what was seen",
    ),
    Kind(
        "routes",
        "routes",
        "build_router",
        "registry.routers([build_router()])",
        "requests for what was seen, by administrators",
        "fastapi>=0.115",
    ),
)
KIND_NAMES: Final = tuple(kind.name for kind in KINDS)


def write_extension(name: str, kinds: Sequence[str] = KIND_NAMES, directory: Path | None = None) -> Path:
    """Write the distribution `name` into a new folder of `directory`, and return that folder.

    Raises `WrongUseError` for a name that no such distribution can have, `KitError` where something is in
    the way; nothing that exists is touched.
    """
    module = _checked_module(name)
    chosen = [kind for kind in KINDS if kind.name in kinds]
    folder = (directory or Path.cwd()) / name
    try:
        folder.mkdir()
    except FileExistsError:
        raise KitError(
            f"{folder}: exists already; choose another name, or another folder with --dir"
        ) from None
    except OSError as error:
        raise KitError(f"{folder}: cannot be created: {error.strerror}; name a folder with --dir") from error
    try:
        for path, text in _contents(name, module, chosen):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8", newline="\n")
    except BaseException:
        shutil.rmtree(folder)
        raise
    return folder


def _checked_module(name: str) -> str:
    """Return the package's name. Raises where name or package would be in somebody's way."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise WrongUseError(
            f"name {name[:80]!r} is not allowed; allowed: lower-case words of letters and digits joined by "
            "hyphens, such as acme-audit"
        )
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _RESERVED:
        raise WrongUseError(
            f"name {name!r} is taken by Python or by the host; add a word, such as {name}-acme"
        )
    if importlib.util.find_spec(module) is not None:
        raise WrongUseError(f"name {name!r}: a module {module} is installed already; choose another name")
    return module


def _contents(name: str, module: str, kinds: Sequence[Kind]) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file."""
    values = {"name": name, "module": module, "api": _contract(), **_range(), **_lines(module, kinds)}
    chosen = {kind.module for kind in kinds}
    optional = {kind.module for kind in KINDS}
    for template in _templates(files("deerflow.kit") / "scaffold_files"):
        stem = Path(template.name.removesuffix(_SUFFIX)).stem.removeprefix("test_")
        if stem not in optional or stem in chosen:
            target = Template(template.path).substitute(values)
            yield target, Template(template.text).substitute(values)


@dataclass(frozen=True)
class _TemplateFile:
    name: str
    path: str
    text: str


def _templates(folder: Traversable, prefix: str = "") -> Iterator[_TemplateFile]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _templates(entry, f"{prefix}{entry.name.replace('PACKAGE', '$module')}/")
        elif entry.name.endswith(_SUFFIX):
            path = prefix + entry.name.removesuffix(_SUFFIX).replace("dot-", ".")
            yield _TemplateFile(entry.name, path, entry.read_text(encoding="utf-8"))


def _contract() -> str:
    """The version to declare: of this host's contract without its patch, which only adds."""
    return ".".join(API_VERSION.split(".")[:2])


def _range() -> dict[str, str]:
    major, minor, *_ = map(int, API_VERSION.split("."))
    return {"next_api": f"0.{minor + 1}" if major == 0 else f"{major + 1}"}


def _lines(module: str, kinds: Sequence[Kind]) -> dict[str, str]:
    """The parts of files that depend on the kinds."""
    return {
        "dependencies": "".join(f'    "{kind.dependency}",\n' for kind in kinds if kind.dependency),
        "imports": "".join(
            f"from {module}.{kind.module} import {kind.imported}\n"
            for kind in sorted(kinds, key=lambda kind: kind.module)
        ),
        "registrations": "\n".join(f"    {kind.registration}" for kind in kinds),
        "kind_rows": "".join(
            f"| {kind.name} | `{module}/{kind.module}.py` | {kind.sees} |\n" for kind in kinds
        ),
    }
