"""Finding plugins among the installed distributions."""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from pathlib import Path

import pytest
from support.axonx_plugins import install

from axonx.plugins.discovery import Discovery, Plugin


def found(discovery: Discovery | None = None) -> dict[str, Plugin]:
    return {plugin.distribution: plugin for plugin in (discovery or Discovery()).plugins()}


def age(*roots: Path) -> None:
    """Make everything below look as if it was installed a minute ago."""
    for root in roots:
        for path in [root, *root.rglob("*")]:
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))


def test_a_plugin_is_found_without_being_imported(site: Path) -> None:
    package = install(site, "pa", "jobs: {a: {}}", __init__="raise RuntimeError('imported')")
    plugin = found()["pa"]
    assert (plugin.version, plugin.entry_point, plugin.package) == ("1.0", "main", package)
    assert plugin.error == ""
    assert plugin.manifest is not None
    assert list(plugin.manifest.jobs) == ["a"]
    assert package not in sys.modules


def test_a_package_inside_a_package_is_found_without_importing_its_parent(site: Path) -> None:
    install(site, "pa", None, entry_point="outer.inner")
    (site / "outer" / "inner").mkdir(parents=True)
    (site / "outer" / "__init__.py").write_text("raise RuntimeError('imported')")
    (site / "outer" / "inner" / "__init__.py").write_text("")
    (site / "outer" / "inner" / "plugin.yaml").write_text("{}")
    assert found()["pa"].error == ""


def test_a_package_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped/__init__.py", "")
        file.writestr("zipped/plugin.yaml", "jobs: {a: {}}")
        file.writestr("zipped-2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 2.0\n")
        file.writestr("zipped-2.0.dist-info/entry_points.txt", "[axonx.plugins]\nx = zipped\n")
    monkeypatch.syspath_prepend(str(archive))
    plugin = found()["zipped"]
    assert (plugin.version, plugin.error) == ("2.0", "")


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        ("os:path", "must name a package without ':', got 'os:path'"),
        ("not a package", "must name a package"),
        ("no_such_package_anywhere", "package 'no_such_package_anywhere' cannot be found"),
        ("json.decoder", "is a module; the entry point must name a package"),
        ("json", "package 'json' has no plugin.yaml"),
    ],
)
def test_a_wrong_entry_point_is_the_error_of_its_plugin(site: Path, entry_point: str, message: str) -> None:
    install(site, "healthy", "{}")
    install(site, "wrong", None, entry_point=entry_point)
    plugins = found()
    assert message in plugins["wrong"].error
    assert plugins["wrong"].manifest is None
    assert plugins["healthy"].error == ""


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("entry_points.txt", b"[axonx.plugins]\nno equals sign\n"),
        ("entry_points.txt", b"[axonx.plugins]\nx = \xff\n"),
        ("METADATA", b""),
    ],
)
def test_damaged_metadata_do_not_hide_the_other_plugins(site: Path, file: str, content: bytes) -> None:
    install(site, "healthy", "{}")
    install(site, "damaged", "{}")
    (site / "damaged-1.0.dist-info" / file).write_bytes(content)
    plugins = found()
    assert plugins["healthy"].error == ""
    assert len(plugins) == 2


def test_the_first_distribution_of_a_name_counts(site: Path, tmp_path: Path) -> None:
    install(site, "pa", "jobs: {first: {}}")
    install(tmp_path / "later", "PA", "jobs: {second: {}}")
    install(tmp_path / "later", "pb", "{}")
    (site / "pb-2.0.dist-info").mkdir()
    (site / "pb-2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pb\nVersion: 2.0\n")
    sys.path.append(str(tmp_path / "later"))
    sys.path.append(str(site))
    plugins = Discovery().plugins()
    assert [plugin.distribution for plugin in plugins] == ["pa"]


def test_what_was_found_is_kept_until_something_changes(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Others may write into the folder of the repository or of its tests meanwhile.
    monkeypatch.setattr(sys, "path", [str(site)])
    install(site, "pa", "{}")
    age(site)
    discovery = Discovery()
    first = discovery.plugins()
    assert discovery.plugins() is first
    manifest = first[0].manifest_path
    assert manifest is not None
    manifest.write_text("jobs: {a: {}}")
    assert list(found(discovery)["pa"].manifest.jobs) == ["a"]  # type: ignore[union-attr]
    install(site, "pb", "{}")
    assert set(found(discovery)) == {"pa", "pb"}


def test_a_change_of_the_search_path_is_noticed(site: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    install(other, "pb", "{}")
    age(site, other)
    discovery = Discovery()
    assert "pb" not in found(discovery)
    sys.path.append(str(other))
    assert "pb" in found(discovery)
    sys.path.remove(str(other))
    assert "pb" not in found(discovery)


def test_a_plugin_that_is_repaired_is_found(site: Path) -> None:
    package = install(site, "pa", None)
    age(site)
    discovery = Discovery()
    assert "has no plugin.yaml" in found(discovery)["pa"].error
    (site / package / "plugin.yaml").write_text("{}")
    age(site)
    assert found(discovery)["pa"].error == ""


def test_threads_may_discover_at_the_same_time(site: Path) -> None:
    install(site, "pa", "{}")
    discovery = Discovery()
    results: list[tuple[Plugin, ...]] = []
    threads = [threading.Thread(target=lambda: results.append(discovery.plugins())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [results[0]] * 8
