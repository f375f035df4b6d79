"""What the installed plugins bring, checked to the end: for people who ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from axonx.components.job.outcome import failure_text
from axonx.config import ApplicationConfig
from axonx.core.composition import compose
from axonx.plugins.contributions import contribution_of, plugin_targets
from axonx.plugins.discovery import Plugin, discovery


class PluginReport(BaseModel):
    """One plugin; `problems` is empty when all of it can be used.

    `tasks` maps names, and `components` maps `category:backend`, to `module:Class`.
    """

    name: str
    version: str
    entry_point: str
    package: str
    tasks: Mapping[str, str]
    components: Mapping[str, str]
    jobs: Sequence[str]
    problems: Sequence[str]


def plugin_reports() -> list[PluginReport]:
    """A report on every installed plugin, by name; imports every class that a manifest names.

    Reads files: call it from a thread in asynchronous code.
    """
    plugins = discovery.plugins()
    problems = _problems_of_composition(plugins)
    return [_report(plugin, problems.get(plugin.distribution, [])) for plugin in plugins]


def _problems_of_composition(plugins: Sequence[Plugin]) -> dict[str, list[str]]:
    contributions = [contribution_of(plugin) for plugin in plugins]
    try:
        context = compose(ApplicationConfig(), (), contributions).context
    except ValueError as conflict:
        # Two plugins with one Job stop every Application, so every plugin's report says it.
        return {plugin.distribution: [str(conflict)] for plugin in plugins}
    found: dict[str, list[str]] = {}
    for owner, problem in context.plugin_problems:
        found.setdefault(owner, []).append(problem)
    return found


def _report(plugin: Plugin, problems: list[str]) -> PluginReport:
    manifest = plugin.manifest
    return PluginReport(
        name=plugin.distribution,
        version=plugin.version,
        entry_point=plugin.entry_point,
        package=plugin.package,
        tasks=manifest.tasks if manifest else {},
        components={
            f"{category}:{backend}": target
            for category, backends in (manifest.components if manifest else {}).items()
            for backend, target in backends.items()
        },
        jobs=list(manifest.jobs) if manifest else [],
        problems=list(dict.fromkeys([*problems, *_import_problems(plugin)])),
    )


def _import_problems(plugin: Plugin) -> list[str]:
    problems = []
    for target in plugin_targets(plugin):
        if target.problem() is not None:
            continue
        try:
            target.load()
        except Exception as error:  # noqa: BLE001 - the report is what the errors are collected for
            problems.append(failure_text(error))
    return problems
