"""From whatever names an extension to a set that holds it alone."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from deerflow.config import ExtensionSpec
from deerflow.extensions import ExtensionLoadError, LoadedExtensions, load_extensions

Extension: TypeAlias = str | Path | Callable[..., Any]
"""`"module:install"`, a folder with a `pyproject.toml`, a Python file with an `install`, or the function."""

ENTRY_POINT_GROUP: Final = "deerflow.extensions"

_numbers = itertools.count(1)


def load_extension(extension: Extension, config: Mapping[str, Any] | None = None) -> LoadedExtensions:
    """Return a set that holds `extension` alone, installed with `config`; nothing process-wide is touched.

    Whatever keeps it from loading is an `ExtensionLoadError` with the reason, caused by its own error.
    A folder or file is added to the import path of this process.
    """
    return load_times(extension, config, times=1)


def load_times(
    extension: Extension, config: Mapping[str, Any] | None = None, *, times: int
) -> LoadedExtensions:
    """Like `load_extension`, as if several records named the extension."""
    use = _entry_point(extension)
    spec = ExtensionSpec(use=use, config=dict(config or {}), required=True)
    try:
        loaded, _ = load_extensions([spec] * times)
    except ExtensionLoadError as error:
        raise ExtensionLoadError(f"{error}: {error.reason}", source=use, reason=error.reason) from (
            error.__cause__
        )
    return loaded


def _entry_point(extension: Extension) -> str:
    if isinstance(extension, str):
        return extension
    if isinstance(extension, Path):
        return _of_path(extension.resolve())
    if callable(extension):
        module = ModuleType(f"extension_under_test_{next(_numbers)}")
        vars(module)["install"] = extension
        sys.modules[module.__name__] = module
        return f"{module.__name__}:install"
    raise ExtensionLoadError(
        f"extension under test: a {type(extension).__name__} is not allowed; give 'module:install', "
        "a path, or the function"
    )


def _of_path(path: Path) -> str:
    if path.is_dir():
        use, root = _declared_entry_point(path), path / "src" if (path / "src").is_dir() else path
    elif path.suffix == ".py" and path.is_file():
        use, root = f"{path.stem}:install", path.parent
    else:
        raise ExtensionLoadError(f"{path}: no extension is there; give its folder or a Python file")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
        importlib.invalidate_caches()
    _check_origin(use.partition(":")[0], root)
    return use


def _declared_entry_point(folder: Path) -> str:
    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError) as error:
        raise ExtensionLoadError(f"{file}: cannot be read: {error}") from error
    declared = project.get("entry-points", {}).get(ENTRY_POINT_GROUP, {})
    if len(declared) != 1:
        raise ExtensionLoadError(
            f'{file}: [project.entry-points."{ENTRY_POINT_GROUP}"] has {len(declared)} entries, expected '
            "one; name the entry point as 'module:install'"
        )
    return str(next(iter(declared.values())))


def _check_origin(module_name: str, root: Path) -> None:
    """Refuse to test a namesake that was imported, or would be, from elsewhere."""
    spec = importlib.util.find_spec(module_name)
    if spec is None:
        return
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    if not any(Path(place).resolve().is_relative_to(root) for place in places):
        raise ExtensionLoadError(
            f"{module_name} would be imported from {', '.join(places) or 'elsewhere'}, not from {root}; "
            "uninstall that one, or give one of them another name"
        )
