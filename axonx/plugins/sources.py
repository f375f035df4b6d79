"""`plugins.sources`: projects of plugins that are used where they are, without being installed."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from axonx.plugins.discovery import GROUP, Plugin, normalized, read_plugin
from axonx.plugins.errors import PluginSourceError


@dataclass(frozen=True, slots=True)
class SourcePlugin:
    """A plugin of a source tree, and the directory that its package is imported from."""

    plugin: Plugin
    import_root: Path

    def make_importable(self) -> None:
        """Put the directory at the end of `sys.path`, so that it hides nothing."""
        if str(self.import_root) not in sys.path:
            sys.path.append(str(self.import_root))


def read_sources(sources: Sequence[str], installed: Sequence[Plugin]) -> Iterator[SourcePlugin]:
    """The plugins of the configured directories.

    Raises `PluginSourceError`, a `ValueError`: whoever names a source uses it, so nothing is left out.
    """
    elsewhere = {normalized(plugin.distribution): plugin for plugin in installed}
    for index, source in enumerate(sources):
        where = f"plugins.sources.{index} ({source})"
        for found in _plugins_in(Path(source).absolute(), where):
            if found.plugin.error:
                raise PluginSourceError(f"{where}: {found.plugin.error}")
            other = elsewhere.get(normalized(found.plugin.distribution))
            if other is not None and other.manifest_path != found.plugin.manifest_path:
                raise PluginSourceError(
                    f"{where}: plugin {other.distribution!r} is installed too ({other.manifest_path}); "
                    "uninstall it or remove the source"
                )
            yield found


def _plugins_in(directory: Path, where: str) -> Iterator[SourcePlugin]:
    project = _project(directory / "pyproject.toml", where)
    name, version = project.get("name"), project.get("version", "")
    groups = project.get("entry-points")
    entry_points = groups.get(GROUP) if isinstance(groups, dict) else None
    if not isinstance(name, str) or not isinstance(entry_points, dict) or not entry_points:
        raise PluginSourceError(
            f'{where}: pyproject.toml needs project.name and an entry under project.entry-points."{GROUP}"'
        )
    root = directory / "src" if (directory / "src").is_dir() else directory
    for entry_point, package in entry_points.items():
        yield SourcePlugin(read_plugin(name, version, entry_point, package, [str(root)]), root)


def _project(file: Path, where: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise PluginSourceError(f"{where}: {file.name} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise PluginSourceError(f"{where}: {file.name} is not valid: {error}") from None
    project = document.get("project")
    return project if isinstance(project, dict) else {}
