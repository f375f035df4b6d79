"""Finding packages and their files without importing them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

from axonx.plugins.errors import ManifestError
from axonx.plugins.manifest import MANIFEST_FILE


def find_module(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    """Where a module would be imported from, or `None`; nothing is executed, parents neither."""
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = _found(".".join(parts[:count]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def read_manifest_file(package: str, path: Sequence[str] | None = None) -> tuple[Path, bytes]:
    """A package's `plugin.yaml` and its bytes; `path` replaces `sys.path`. Raises `ManifestError`."""
    spec = find_module(package, path)
    if spec is None:
        raise ManifestError(f"package {package!r} cannot be found")
    locations = list(spec.submodule_search_locations or ())
    if not locations:
        raise ManifestError(f"{package!r} is a module; the entry point must name a package")
    for location in locations:
        file = Path(location, MANIFEST_FILE)
        try:
            return file, file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            content = _from_archive(spec, file)
            if content is not None:
                return file, content
        except OSError as error:
            raise ManifestError(f"{MANIFEST_FILE} cannot be read: {error}") from None
    raise ManifestError(f"package {package!r} has no {MANIFEST_FILE}; include it in the package's data")


def _found(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find_spec(name, path) if find_spec is not None else None
        if spec is not None:
            return spec
    return None


def _from_archive(spec: ModuleSpec, file: Path) -> bytes | None:
    get_data = getattr(spec.loader, "get_data", None)
    if get_data is None:
        return None
    try:
        content: bytes = get_data(str(file))
    except OSError:
        return None
    return content
