"""Installing, upgrading and removing an extension: each happens whole, or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deerflow.kit.config_file import ConfigFile
from deerflow.kit.environment import (
    Environment,
    declared_extensions,
    entry_points_of,
    find_environment,
    installed_distribution,
)
from deerflow.kit.errors import KitError, WrongUseError
from deerflow.kit.git_fetch import fetch_repository
from deerflow.kit.plugin_edits import with_appended, without
from deerflow.kit.plugin_records import PluginRecord, PluginsText
from deerflow.kit.receipts import Receipt, ReceiptStore
from deerflow.kit.rollback import restored_on_failure
from deerflow.kit.snapshots import take_snapshot
from deerflow.kit.sources import FolderSource, GitSource, PackageSource, Source, parse_source
from deerflow.kit.trial import try_out

Trust = Callable[[Source], None]
"""Asked before any code of a source is run; raises where it is not to be."""


@dataclass(frozen=True)
class Place:
    """Where extensions are installed: a configuration file, an environment, the receipts."""

    config: ConfigFile
    environment: Environment = field(default_factory=find_environment)
    receipts: ReceiptStore = field(default_factory=ReceiptStore)


@dataclass(frozen=True)
class _Fetched:
    """A source as the installer takes it: a requirement, or the copy of a folder."""

    name: str
    target: str
    copy: Path | None = None
    digest: str | None = None
    commit: str | None = None


def install(place: Place, source: Source, trust: Trust, *, use: str | None, enabled: bool) -> Receipt:
    """Install a source and append its record; `use` chooses among several entry points.

    An enabled one is tried out first, in the configuration that it is to become part of. Raises `KitError`
    or `WrongUseError`; environment, configuration and state are then as before.
    """
    plugins = place.config.read()
    trust(source)
    with place.receipts.locked(), _fetched(place, source) as fetched:
        _refuse_second(plugins, fetched.name)
        with restored_on_failure(place.environment, fetched.name, place.receipts.log):
            place.environment.install(fetched.target, fetched.name, upgrade=True, log=place.receipts.log)
            use = _choose_entry_point(fetched.name, use)
            _refuse_second(plugins, fetched.name, use)
            fields: dict[str, object] = {"name": fetched.name, "use": use, "package": fetched.name}
            if enabled:
                _try_out(with_appended(plugins, fields), len(plugins.records), fetched.name)
            else:
                fields["enabled"] = False
            receipt = _receipt(source, fetched, use)
            with place.receipts.keeping(receipt):
                place.config.edit(lambda text: with_appended(_refuse_second(text, fetched.name, use), fields))
        place.receipts.forget_copies(fetched.name, fetched.copy)
    return receipt


def upgrade(
    place: Place, name: str, trust: Trust, *, source: Source | None = None
) -> tuple[Receipt, Receipt]:
    """Install the newest state of an extension's source; return the receipts from before and after.

    Where the source has not changed, both are the same. An enabled one is tried out. Raises like `install`.
    """
    plugins = place.config.read()
    record = plugins.find(name)
    before = _known_receipt(place, record, source)
    source = source or parse_source(before.source)
    trust(source)
    with place.receipts.locked(), _fetched(place, source) as fetched:
        if fetched.name != before.name:
            raise KitError(f"{source}: is {fetched.name}, not {before.name}; install it as another extension")
        if fetched.digest is not None and fetched.digest == before.digest:
            return before, before
        with restored_on_failure(place.environment, before.name, place.receipts.log):
            place.environment.install(fetched.target, fetched.name, upgrade=True, log=place.receipts.log)
            if record.enabled:
                _try_out(plugins.text, record.index, before.name)
            after = _receipt(source, fetched, record.text("use") or before.use)
            with place.receipts.keeping(after):
                pass
        place.receipts.forget_copies(fetched.name, fetched.copy)
    return before, after


def remove(place: Place, name: str) -> tuple[PluginRecord, str | None]:
    """Take an extension's record away, and its package where a command had installed it.

    Returns the record and the package that was uninstalled. What the package needed stays installed.
    """
    plugins = place.config.read()
    record = plugins.find(name)
    without(plugins, record)  # before anything else is done: can it be taken away at all?
    package = _distribution_of(record)
    others = {_distribution_of(other) for other in plugins.records if other.index != record.index}
    ours = package if package and package not in others and place.receipts.find(package) else None
    with place.receipts.locked():
        if ours is None or installed_distribution(ours) is None:
            place.config.edit(lambda text: without(text, text.find(name)))
        else:
            with restored_on_failure(place.environment, ours, place.receipts.log):
                place.environment.uninstall([ours], place.receipts.log)
                place.config.edit(lambda text: without(text, text.find(name)))
        if ours is not None:
            place.receipts.forget(ours)
    return record, ours


@contextmanager
def _fetched(place: Place, source: Source) -> Iterator[_Fetched]:
    """Fetch a source; a copy that was made of it is removed again where the block fails."""
    if isinstance(source, PackageSource):
        yield _Fetched(canonicalize_name(Requirement(source.requirement).name), source.requirement)
        return
    with ExitStack() as stack:
        folder, commit = _folder_of(source, stack)
        known = set(place.receipts.folder.glob("*/*"))
        snapshot = take_snapshot(folder, place.receipts.folder)
        try:
            yield _Fetched(snapshot.name, str(snapshot.path), snapshot.path, snapshot.digest, commit)
        except BaseException:
            if snapshot.path not in known:
                shutil.rmtree(snapshot.path, ignore_errors=True)
                with suppress(OSError):  # it holds other things
                    snapshot.path.parent.rmdir()
            raise


def _folder_of(source: FolderSource | GitSource, stack: ExitStack) -> tuple[Path, str | None]:
    if isinstance(source, FolderSource):
        return source.path, None
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deerflow-"))).resolve()
    return folder, fetch_repository(source, folder)


def _refuse_second(plugins: PluginsText, name: str, use: str | None = None) -> PluginsText:
    """Return `plugins` where it has no record of that distribution, nor of that entry point."""
    for record in plugins.records:
        if _distribution_of(record) == name or (use is not None and record.text("use") == use):
            raise WrongUseError(
                f"{plugins.source}: {name} has a record already ({record.label}); upgrade that one: "
                f"deerflow extensions upgrade {record.label}"
            )
    return plugins


def _distribution_of(record: PluginRecord) -> str | None:
    """The distribution that a record's extension comes from, as far as anybody has said."""
    package, use = record.text("package"), record.text("use")
    if package:
        return canonicalize_name(package)
    declared = declared_extensions().get(use or "")
    return declared[0] if declared is not None else None


def _choose_entry_point(name: str, use: str | None) -> str:
    declared = entry_points_of(name)
    if use is not None:
        return use
    if not declared:
        raise KitError(
            f'{name}: declares no entry point in [project.entry-points."deerflow.extensions"]; '
            "name it with --use module:install"
        )
    if len(declared) > 1:
        raise KitError(f"{name}: declares {', '.join(declared)}; choose one with --use")
    return declared[0]


def _try_out(config_text: str, index: int, name: str) -> None:
    errors = try_out(config_text, index)
    if errors:
        raise KitError(
            f"{name}: was not installed, the host would not load it: {'; '.join(errors)} "
            "(to configure it first, install it with --disabled)"
        )


def _receipt(source: Source, fetched: _Fetched, use: str) -> Receipt:
    distribution = installed_distribution(fetched.name)
    if distribution is None:
        raise KitError(
            f"{fetched.name}: the installer ended well, but it is not there; look at your PYTHONPATH"
        )
    return Receipt(fetched.name, str(source), distribution.version, use, fetched.digest, fetched.commit)


def _known_receipt(place: Place, record: PluginRecord, source: Source | None) -> Receipt:
    name = _distribution_of(record)
    receipt = place.receipts.find(name) if name else None
    if receipt is not None:
        return receipt
    installed = installed_distribution(name) if name else None
    if source is None or name is None or installed is None:
        raise KitError(
            f"{record.label}: was not installed by this command, so that its source is not known; "
            f"name it: deerflow extensions upgrade {record.label} --from SOURCE"
        )
    return Receipt(name, "", installed.version, record.text("use") or "")
