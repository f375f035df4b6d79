"""From `plugins:` records to one frozen set of contributions, in list order, once per application."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable
from typing import Any

from deerflow_extension_api import API_VERSION

from deerflow.config import ExtensionSpec
from deerflow.extensions.cancellation import must_propagate
from deerflow.extensions.diagnostics import (
    Diagnostic,
    DiagnosticLog,
    error_text,
    logger,
    report,
    type_name,
    watch_duration,
)
from deerflow.extensions.errors import EntryRefused, ExtensionLoadError
from deerflow.extensions.hooks import discard_unfinished
from deerflow.extensions.registry import EntryRegistry, Registrations
from deerflow.extensions.snapshot import LoadedExtensions
from deerflow.extensions.table_prefixes import HOST_TABLES, TablePrefixes
from deerflow.extensions.version_check import check_api_marker


def load_extensions(
    specs: Iterable[ExtensionSpec],
    *,
    host_tables: Collection[str] = HOST_TABLES,
    api_version: str = API_VERSION,
) -> tuple[LoadedExtensions, list[Diagnostic]]:
    """Return the frozen set of what the records' extensions registered, and its live diagnostics.

    An entry that cannot be loaded is skipped with a diagnostic; where it is `required`, and for a table
    prefix that covers one of `host_tables`, ExtensionLoadError is raised instead.
    """
    diagnostics = DiagnosticLog()
    registrations = Registrations()
    prefixes = TablePrefixes()
    loaded: list[str] = []
    entries = tuple(specs)
    for spec in entries:
        prefixes = prefixes.including(spec, host_tables)
        if not spec.enabled:
            continue
        registered = _load_entry(spec, diagnostics, api_version)
        if registered is not None:
            registrations.add(registered)
            loaded.append(spec.use)
    if entries:
        names = ", ".join(loaded) or "none"
        logger.info("Extensions loaded: %d/%d (%s)", len(loaded), len(entries), names)
    return registrations.freeze(prefixes, diagnostics), diagnostics


def _load_entry(spec: ExtensionSpec, diagnostics: DiagnosticLog, api_version: str) -> Registrations | None:
    """Return what one entry registered; None, with a diagnostic, where it could not be loaded."""
    registry = EntryRegistry(spec.use, diagnostics)
    try:
        entry_point = _resolve(spec.use)
        check_api_marker(entry_point, api_version)
        _install(entry_point, registry, spec)
        return registry.close()
    except EntryRefused as refusal:
        report(diagnostics, "error", spec.use, refusal.message, error=refusal.__cause__)
        if spec.required:
            raise ExtensionLoadError(
                f"required extension {spec.use} {refusal.problem}", source=spec.use, reason=refusal.message
            ) from refusal.__cause__
        return None
    finally:
        registry.close()


def _resolve(use: str) -> Callable[..., Any]:
    try:
        entry_point: Callable[..., Any] = _import_attribute(use)
    except BaseException as error:  # an import runs any code of the extension
        if must_propagate(error):
            raise
        reason = error_text(error)
        raise EntryRefused(f"could not resolve extension entry point: {reason}", "failed to load") from error
    if not callable(entry_point):
        raise EntryRefused(
            f"extension entry point is not callable: {type_name(entry_point)}", "is not callable"
        )
    return entry_point


def _import_attribute(use: str) -> Any:
    module_path, colon, attribute = use.partition(":")
    if not (module_path and colon and attribute) or module_path.startswith("."):
        raise ValueError(f"{use!r} is not of the form 'module.path:attribute'")
    target: Any = importlib.import_module(module_path)
    for name in attribute.split("."):
        target = getattr(target, name)
    return target


def _install(install: Callable[..., Any], registry: EntryRegistry, spec: ExtensionSpec) -> None:
    try:
        with watch_duration(spec.use, "install()"):
            returned = install(registry, spec.fresh_config())
        unfinished = discard_unfinished(returned)
    except BaseException as error:  # install is code of the extension
        if must_propagate(error):
            raise
        raise EntryRefused(f"install() failed: {error_text(error)}", "failed to install") from error
    if unfinished is not None:
        raise EntryRefused(
            f"install() must be a plain function; it returned {unfinished}", "failed to install"
        )
