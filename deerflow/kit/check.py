"""A dry run of the extensions: what would loading them do? Nothing of the host is touched.

Modules are imported and `install` is called, as the host does it, but with a registry that is thrown away.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from deerflow_extension_api import API_VERSION

from deerflow.config import AppConfig, ExtensionSpec, config_from
from deerflow.errors import ConfigError
from deerflow.extensions import HOST_TABLES, LoadedExtensions, TablePrefixes, load_extensions
from deerflow.extensions.cancellation import must_propagate
from deerflow.extensions.diagnostics import SLOW_CALL_SECONDS, Diagnostic, type_name
from deerflow.extensions.errors import TablePrefixError
from deerflow.kit.check_report import CheckReport, EntryReport, Fate, Finding
from deerflow.kit.config_file import find_config_file
from deerflow.kit.hook_shapes import inspect_hooks
from deerflow.kit.middleware_check import MiddlewareTable
from deerflow.kit.quiet_log import quiet_log
from deerflow.kit.route_check import RouteTable

_KINDS: Final = {
    "task_lifecycle": "task lifecycle",
    "system_model_observers": "system call observer",
    "context_compaction_observers": "compaction observer",
    "agent_assembly_observers": "assembly observer",
    "services": "service",
}


def check_config(path: Path | None = None) -> CheckReport:
    """Check every record of the configuration that the host would read, in the order of loading.

    Records are checked even where the file is wrong elsewhere. Raises `KitError` where it cannot be read.
    """
    file = find_config_file(path)
    text = file.read()
    problems: tuple[str, ...] = ()
    usable = [record for record in text.records if record.problem is None]
    try:
        config = config_from(file.shown if file.path.exists() else {})
    except ConfigError as error:
        problems = tuple(str(error).splitlines())
        config = config_from({"plugins": [dict(record.fields) for record in usable]})
    with quiet_log():
        entries = tuple(_Check(config).entries([record.index for record in usable]))
    return CheckReport(str(file.shown), problems, entries)


def check_extensions(specs: Sequence[ExtensionSpec]) -> CheckReport:
    """Check these records, in the order of loading, for a host with the default configuration."""
    with quiet_log():
        entries = tuple(_Check(AppConfig(plugins=tuple(specs))).entries(range(len(specs))))
    return CheckReport("plugins", entries=entries)


@dataclass
class _Entry:
    """What is known of one record so far."""

    index: int
    spec: ExtensionSpec
    fate: Fate = Fate.LOADED
    loaded: LoadedExtensions = field(default_factory=LoadedExtensions)
    import_seconds: float = 0.0
    install_seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def error(self, text: str) -> None:
        self.findings.append(Finding("error", text))

    def warn(self, text: str) -> None:
        self.findings.append(Finding("warning", text))

    def take(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add what the host would report."""
        self.findings += [Finding(diagnostic.level, diagnostic.message) for diagnostic in diagnostics]


class _Check:
    """One dry run; later entries are checked against earlier ones."""

    def __init__(self, config: AppConfig) -> None:
        self._config = config
        self._specs = config.plugins
        self._prefixes = TablePrefixes()

    def entries(self, indexes: Sequence[int]) -> Iterator[EntryReport]:
        """Yield a report per record; `indexes` are their places in the file."""
        names = [spec.name for spec in self._specs if spec.name]
        for index, spec in zip(indexes, self._specs, strict=True):
            entry = _Entry(index, spec)
            if spec.name and names.count(spec.name) > 1:
                entry.warn(f"name {spec.name!r} is given to several records; commands cannot tell them apart")
            self._check_prefix(entry)
            if spec.enabled:
                self._load(entry)
                yield self._report(entry)
            else:
                fate = Fate.STOPS_HOST if entry.fate is Fate.STOPS_HOST else Fate.DISABLED
                yield _plain_report(replace(entry, fate=fate))

    def _check_prefix(self, entry: _Entry) -> None:
        prefix = entry.spec.table_prefix
        if prefix is None:
            return
        for other in self._prefixes.prefixes:
            if other.lower().startswith(prefix.lower()) or prefix.lower().startswith(other.lower()):
                entry.warn(f"table_prefix {prefix!r} overlaps with {other!r} of an earlier record")
        try:
            self._prefixes = self._prefixes.including(entry.spec, HOST_TABLES)
        except TablePrefixError as error:
            entry.fate = Fate.STOPS_HOST
            entry.error(f"{error}; {error.reason}")

    def _load(self, entry: _Entry) -> None:
        use = entry.spec.use
        try:
            entry.import_seconds = _import_seconds(use)
            began = time.monotonic()
            spec = entry.spec.model_copy(update={"required": False, "table_prefix": None})
            entry.loaded, diagnostics = load_extensions([spec])
            entry.install_seconds = time.monotonic() - began
        except SystemExit as error:
            entry.fate = Fate.STOPS_HOST
            entry.error(
                f"loading it ends the process: SystemExit({error.code!r}); raise an exception instead"
            )
            return
        entry.take(diagnostics)
        if any(diagnostic.level == "error" for diagnostic in diagnostics):
            entry.fate = Fate.STOPS_HOST if entry.spec.required else Fate.DROPPED
        for what, seconds in (("import", entry.import_seconds), ("install()", entry.install_seconds)):
            if seconds > SLOW_CALL_SECONDS:
                entry.warn(f"{what} takes {seconds:.1f} s of every start; do slow work in a service")

    def _report(self, entry: _Entry) -> EntryReport:
        if entry.fate is not Fate.LOADED:
            return _plain_report(entry)
        entry.loaded.diagnostics.clear()
        middlewares = self._middlewares.add(entry.loaded)
        routes = self._routes.add(entry.loaded) if entry.loaded.routers else []
        entry.take(entry.loaded.diagnostics)
        entry.findings += inspect_hooks(entry.loaded)
        contributions = (*_contributions(entry.loaded), *middlewares)
        if not (contributions or entry.loaded.routers or entry.loaded.middleware_contributors):
            entry.warn("it registers nothing")
        if any(finding.level == "error" for finding in entry.findings):
            entry.fate = Fate.REDUCED
        report = _plain_report(entry)
        return replace(
            report, contract=_contract(entry.spec.use), contributions=contributions, routes=tuple(routes)
        )

    @cached_property
    def _middlewares(self) -> MiddlewareTable:
        return MiddlewareTable(self._config)

    @cached_property
    def _routes(self) -> RouteTable:
        return RouteTable(self._config)


def _plain_report(entry: _Entry) -> EntryReport:
    spec = entry.spec
    return EntryReport(
        index=entry.index,
        label=spec.name or spec.use,
        use=spec.use,
        fate=entry.fate,
        table_prefix=spec.table_prefix,
        import_seconds=entry.import_seconds,
        install_seconds=entry.install_seconds,
        findings=tuple(entry.findings),
    )


def _import_seconds(use: str) -> float:
    """How long the import of its module takes, apart from what the host has imported by then.

    Whatever it raises, the loader meets again and reports.
    """
    began = time.monotonic()
    try:
        importlib.import_module(use.partition(":")[0])
    except BaseException as error:  # an import runs any code of the extension
        if must_propagate(error):
            raise
    return time.monotonic() - began


def _contributions(loaded: LoadedExtensions) -> Iterator[str]:
    for kind, title in _KINDS.items():
        for _, contribution in getattr(loaded, kind):
            yield f"{title} {type_name(contribution)}"


def _contract(use: str) -> str:
    """The version verdict of an entry that was loaded, so that it fits."""
    module, _, attribute = use.partition(":")
    install: Any = attrgetter(attribute)(sys.modules[module])
    declared = getattr(install, "__deerflow_api__", None)
    if declared is None:
        return f"not declared; mark install with @extension(api=...), host has {API_VERSION}"
    return f"{declared} fits {API_VERSION}"
