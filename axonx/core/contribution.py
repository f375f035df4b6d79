"""What plugins bring to an Application, and how it becomes a part of one.

A plugin that cannot be used costs its own contribution: a warning names it, and whoever asks for what it
would have brought is told why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from axonx.components.registry import Key, Offer
from axonx.config import ApplicationConfig, JobConfig
from axonx.core.app_context import AppContext
from axonx.errors import ConfigurationError, ProviderConflictError


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one plugin brings: classes by (category, backend), and Jobs by name.

    `owner` is the name of the plugin's distribution; `problems` say what of the plugin cannot be used.
    """

    owner: str
    offers: Mapping[Key, Offer] = field(default_factory=dict)
    jobs: Mapping[str, JobConfig] = field(default_factory=dict)
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class JobEntry:
    """One Job's configuration; `owner` is the plugin that brings it, `None` for the application itself."""

    config: JobConfig
    owner: str | None = None


def register_contributions(
    context: AppContext, given: Collection[Key], contributions: Sequence[Contribution]
) -> None:
    """Offer the plugins' classes to the registry, and report what cannot be used.

    Raises `ProviderConflictError` where the application itself was `given` another class for a key.
    """
    for contribution in contributions:
        for problem in contribution.problems:
            report_problem(context, contribution.owner, problem)
        for key, offer in contribution.offers.items():
            if key in given:
                _check_same_class(context, key, offer)
                continue
            try:
                context.registry.offer(*key, offer)
            except ProviderConflictError as conflict:
                report_problem(context, contribution.owner, _named(key, conflict))


def report_problem(context: AppContext, owner: str, problem: str) -> None:
    """Say once in the log, and to whoever lists plugins, what of a plugin cannot be used."""
    context.plugin_problems.append((owner, problem))
    context.logger.warning("Plugin %r: %s", owner, problem)


def merged_jobs(
    config: ApplicationConfig, contributions: Sequence[Contribution]
) -> Iterator[tuple[str, JobEntry]]:
    """The application's own Jobs, then those of plugins, which are a part of every Application.

    Raises `ConfigurationError` for a name that is used twice.
    """
    entries = {name: JobEntry(job) for name, job in config.jobs.items()}
    for contribution in contributions:
        if both := sorted(config.jobs.keys() & contribution.jobs.keys()):
            raise ConfigurationError(
                f"Jobs provided by both application config and plugins: {', '.join(both)} "
                f"(plugin {contribution.owner!r}); rename them under jobs or uninstall the plugin"
            )
        for name, job in contribution.jobs.items():
            entry = entries.setdefault(name, JobEntry(job, contribution.owner))
            if entry.config is not job:
                raise ConfigurationError(
                    f"Job {name!r} is provided by plugins {entry.owner!r} and {contribution.owner!r}; "
                    "uninstall one of them"
                )
    yield from entries.items()


def _check_same_class(context: AppContext, key: Key, offer: Offer) -> None:
    """One class under two owners is no conflict."""
    known = context.registry.find(*key)
    if known is not None and offer.load() is not known.cls:
        raise ProviderConflictError(
            f"Provider '{key[0]}:{key[1]}' is supplied by both {known} and {offer}; "
            "leave one out or rename yours with @provider"
        )


def _named(key: Key, conflict: ProviderConflictError) -> str:
    category, backend = key
    if category == "task":
        return f"Plugin Task names conflict with built-ins: {backend}; {conflict}"
    return str(conflict)
