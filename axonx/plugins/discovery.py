"""Which plugins are installed: entry points of the group `axonx.plugins`, and their manifests."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from axonx.components.job.outcome import failure_text
from axonx.plugins.errors import ManifestError
from axonx.plugins.manifest import PluginManifest, parse_manifest
from axonx.plugins.packages import read_manifest_file

GROUP = "axonx.plugins"

_PACKAGE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
# While an installation goes on, files may change without a change of the directory's time.
_SETTLED_NS = 2_000_000_000

Moments = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point of a distribution; `manifest` is `None` where `error` says why."""

    distribution: str
    version: str
    entry_point: str
    package: str
    manifest: PluginManifest | None = None
    manifest_path: Path | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    moments: Moments
    plugins: tuple[Plugin, ...]


class Discovery:
    """The installed plugins, looked for again only when what they were read from has changed.

    May be asked by several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: _Found | None = None

    def plugins(self) -> tuple[Plugin, ...]:
        """By name of the distribution; those that cannot be used are among them, with their error."""
        with self._lock:
            last = self._last
            if last is not None and last.moments == _moments(last.plugins):
                return last.plugins
            plugins = tuple(sorted(_installed(), key=lambda each: (each.distribution.lower(), each.package)))
            moments = _moments(plugins)
            settled = time.time_ns() - max((moment for _, moment in moments), default=0) > _SETTLED_NS
            if settled and not any(plugin.error for plugin in plugins):
                self._last = _Found(moments, plugins)
            return plugins


discovery = Discovery()


def read_plugin(
    name: str, version: str, entry_point: str, package: str, path: Sequence[str] | None = None
) -> Plugin:
    """A plugin with its manifest, or with what is wrong with it; `path` replaces `sys.path`."""
    manifest, file, error = None, None, ""
    try:
        if not _PACKAGE.fullmatch(package):
            raise ManifestError(
                f"entry point {entry_point!r} must name a package without ':', got {package!r}"
            )
        file, content = read_manifest_file(package, path)
        manifest = parse_manifest(content)
    except ManifestError as problem:
        error = str(problem)
    except Exception as problem:  # noqa: BLE001 - foreign finders and loaders may raise anything
        error = failure_text(problem)
    return Plugin(name, version, entry_point, package, manifest, file, error)


def normalized(name: str) -> str:
    """The name of a distribution as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed() -> Iterator[Plugin]:
    seen: set[str] = set()
    for found in distributions():
        label = "(unnamed distribution)"
        try:
            if GROUP not in (found.read_text("entry_points.txt") or ""):
                continue
            name = _field(found, "Name")
            label = name or str(found.locate_file(""))
            if normalized(label) in seen:
                continue
            seen.add(normalized(label))
            yield from _plugins_of(distribution(name) if name else found, label)
        except Exception as problem:  # noqa: BLE001 - one damaged distribution must not hide the others
            yield Plugin(label, "", "", "", error=f"its metadata cannot be read: {failure_text(problem)}")


def _plugins_of(found: Distribution, name: str) -> Iterator[Plugin]:
    version = _field(found, "Version")
    for entry_point in found.entry_points:
        if entry_point.group == GROUP:
            yield read_plugin(name, version, entry_point.name, entry_point.value.strip())


def _field(found: Distribution, field: str) -> str:
    present = field in found.metadata  # indexing a missing field is deprecated
    return found.metadata[field] if present else ""


def _moments(plugins: Sequence[Plugin]) -> Moments:
    """When each directory of `sys.path` and each manifest was changed."""
    paths = [entry or "." for entry in sys.path]
    paths += [str(plugin.manifest_path) for plugin in plugins if plugin.manifest_path is not None]
    return tuple((path, _modified_ns(path)) for path in paths)


def _modified_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
