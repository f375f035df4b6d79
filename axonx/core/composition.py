"""From a configuration to instances: everything is built, checked and injected before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, cast

from axonx.components.base import BaseComponent
from axonx.components.job.base import BaseJob
from axonx.components.job.context import copied_containers
from axonx.components.job.outcome import failure_text
from axonx.components.registry import class_path
from axonx.config import ApplicationConfig, JobConfig
from axonx.core.app_context import AppContext
from axonx.core.construction import construct
from axonx.core.contribution import Contribution, merged_jobs, register_contributions, report_problem
from axonx.core.dispatcher import Dispatcher
from axonx.core.graph import ComponentGraph, Node, Phase
from axonx.errors import ConfigurationError, InvalidProviderError

C = TypeVar("C", bound=BaseComponent)

_OWN_SECTIONS = {"job": "jobs", "scheduler": "schedules", "service": "service"}


@dataclass(frozen=True, slots=True)
class Composition:
    """A context whose objects are ready, and the order in which they start."""

    context: AppContext
    order: tuple[Node, ...]


def compose(
    config: ApplicationConfig,
    providers: Iterable[type] = (),
    contributions: Sequence[Contribution] = (),
) -> Composition:
    """Build one Application's objects; needs no event loop and touches no file.

    Raises subclasses of `ValueError` and `TypeError` that name the entry which is wrong.
    """
    context = AppContext(config)
    _register(context, providers, contributions)
    context.dispatcher = Dispatcher(context)
    nodes = list(_components(context))
    context.components = _by_category(nodes)
    jobs = list(_jobs(context, contributions))
    context.jobs = MappingProxyType({node.name: cast(BaseJob, node.component) for node in jobs})
    schedulers = list(_schedulers(context))
    context.schedulers = MappingProxyType({node.name: node.component for node in schedulers})
    service = list(_service(context))
    context.service = service[0].component if service else None
    context.registry.freeze()
    graph = ComponentGraph([*nodes, *jobs, *schedulers, *service])
    graph.inject()
    return Composition(context, graph.order)


def _register(context: AppContext, providers: Iterable[type], contributions: Sequence[Contribution]) -> None:
    if isinstance(providers, type):
        raise InvalidProviderError(
            f"providers must be a sequence of classes: providers=({providers.__name__},)"
        )
    given = {context.registry.add_provider(cls) for cls in providers}
    register_contributions(context, given, contributions)


def _components(context: AppContext) -> Iterator[Node]:
    for category, instances in context.config.components.items():
        if category in _OWN_SECTIONS:
            raise ConfigurationError(
                f"components.{category}: configure it under {_OWN_SECTIONS[category]} instead"
            )
        for name, config in instances.items():
            entry = f"components.{category}.{name}"
            cls = _component_class(context, category, config.backend, BaseComponent)
            component = _build(context, cls, entry, name, config.backend, config.options)
            yield Node(Phase.COMPONENT, category, name, component)


def _jobs(context: AppContext, contributions: Sequence[Contribution]) -> Iterator[Node]:
    for name, entry in merged_jobs(context.config, contributions):
        if entry.owner is None:
            yield _job(context, name, entry.config)
            continue
        try:
            yield _job(context, name, entry.config)
        except Exception as error:  # noqa: BLE001 - a plugin's class may raise anything
            problem = f"Job {name!r} cannot be built: {failure_text(error)}"
            context.unusable_jobs[name] = f"plugin {entry.owner!r}: {problem}"
            report_problem(context, entry.owner, problem)


def _job(context: AppContext, name: str, config: JobConfig) -> Node:
    cls = _component_class(context, "job", config.backend, BaseJob)  # type: ignore[type-abstract]
    fields: dict[str, Any] = {
        "description": config.description,
        "parameters": config.parameters,
        "enable_serve": config.enable_serve,
        "enable_stream": config.enable_stream,
        "requires_auth": config.requires_auth,
    }
    given = [key for key in ("steps", "defaults") if key in config.model_fields_set]
    options: dict[str, Any] = {
        **fields,
        **{key: getattr(config, key) for key in given},
        **config.options,
    }
    job = _build(context, cls, f"jobs.{name}", name, config.backend, options)
    _ = job.argument_schema  # wrong schemas are found here, not by the first call
    return Node(Phase.JOB, "job", name, job)


def _schedulers(context: AppContext) -> Iterator[Node]:
    for name, config in context.config.schedules.items():
        cls = _component_class(context, "scheduler", config.backend, BaseComponent)
        options = {"job": config.job, **config.options}
        scheduler = _build(context, cls, f"schedules.{name}", name, config.backend, options)
        yield Node(Phase.SCHEDULER, "scheduler", name, scheduler)


def _service(context: AppContext) -> Iterator[Node]:
    config = context.config.service
    if config is not None:
        cls = _component_class(context, "service", config.backend, BaseComponent)
        service = _build(context, cls, "service", config.backend, config.backend, config.options)
        yield Node(Phase.SERVICE, "service", config.backend, service)


def _component_class(context: AppContext, category: str, backend: str, base: type[C]) -> type[C]:
    cls = context.registry.get(category, backend)
    if not issubclass(cls, base):
        raise InvalidProviderError(
            f"Provider {category}:{backend} must subclass {base.__name__}; {class_path(cls)} does not"
        )
    return cls


def _build(
    context: AppContext, cls: type[C], entry: str, name: str, backend: str, options: Mapping[str, Any]
) -> C:
    own = copied_containers(options) if options else {}
    return construct(
        cls,
        entry,
        own,
        lambda: cls(name=name, backend=backend, app_context=context, **own),
    )


def _by_category(nodes: Iterable[Node]) -> Mapping[str, Mapping[str, BaseComponent]]:
    found: dict[str, dict[str, BaseComponent]] = {}
    for node in nodes:
        found.setdefault(node.category, {})[node.name] = node.component
    return MappingProxyType({category: MappingProxyType(named) for category, named in found.items()})
