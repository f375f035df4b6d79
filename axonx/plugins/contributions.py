"""From plugins to what an Application takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from axonx.components.registry import Key, Offer
from axonx.config import PluginsConfig
from axonx.core.contribution import Contribution
from axonx.plugins.discovery import Plugin, discovery, normalized
from axonx.plugins.sources import SourcePlugin, read_sources
from axonx.plugins.targets import TASK_CATEGORY, PluginTarget


def plugin_contributions(config: PluginsConfig) -> list[Contribution]:
    """What the installed plugins and the configured source trees bring, by name of the distribution.

    Raises `PluginSourceError`, a `ValueError`, for a source tree that is no plugin.
    """
    installed = discovery.plugins()
    sources = list(read_sources(config.sources, installed))
    replaced = {normalized(source.plugin.distribution) for source in sources}
    found = [
        contribution_of(plugin) for plugin in installed if normalized(plugin.distribution) not in replaced
    ]
    return found + [contribution_of(source.plugin, source) for source in sources]


def contribution_of(plugin: Plugin, source: SourcePlugin | None = None) -> Contribution:
    """A plugin's offers, Jobs, and what can be said to be wrong without importing it."""
    if plugin.manifest is None:
        return Contribution(plugin.distribution, problems=(plugin.error,))
    search = None if source is None else [*sys.path, str(source.import_root)]
    offers: dict[Key, Offer] = {}
    problems: list[str] = []
    for target in plugin_targets(plugin):
        load = target.load if source is None else partial(_load_from_source, source, target)
        offers.setdefault(target.key, Offer(target.owner, target.target, load))
        if problem := target.problem(search):
            problems.append(problem)
    return Contribution(plugin.distribution, offers, plugin.manifest.jobs, problems)


def plugin_targets(plugin: Plugin) -> Iterator[PluginTarget]:
    """Every class that the manifest names; none if there is no manifest."""
    if plugin.manifest is None:
        return
    for name, target in plugin.manifest.tasks.items():
        yield PluginTarget(plugin.distribution, f"tasks.{name}", (TASK_CATEGORY, name), target)
    for category, backends in plugin.manifest.components.items():
        for backend, target in backends.items():
            entry = f"components.{category}.{backend}"
            yield PluginTarget(plugin.distribution, entry, (category, backend), target)


def _load_from_source(source: SourcePlugin, target: PluginTarget) -> type:
    source.make_importable()
    return target.load()
