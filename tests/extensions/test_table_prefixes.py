from __future__ import annotations

import pytest

from deerflow.extensions import HOST_TABLES, ExtensionSpec, TablePrefixError, TablePrefixes
from deerflow.persistence.tables import host_metadata


def spec(prefix: str | None) -> ExtensionSpec:
    return ExtensionSpec(use="gone_module:install", enabled=False, table_prefix=prefix)


def test_prefixes_are_collected_without_importing_anything() -> None:
    prefixes = TablePrefixes.declared_by([spec("acme_"), spec(None), spec("costs_"), spec("acme_")])
    assert prefixes.prefixes == ("acme_", "costs_")


def test_owned_tables_are_found_whatever_the_case() -> None:
    prefixes = TablePrefixes(("Acme_",))
    assert prefixes.owns("acme_calls")
    assert prefixes.owns("ACME_CALLS")
    assert not prefixes.owns("acmecalls")
    assert not prefixes.owns("other_acme_")


def test_without_prefixes_nothing_is_owned() -> None:
    assert not TablePrefixes().owns("runs")


@pytest.mark.parametrize("table", sorted(HOST_TABLES))
def test_no_prefix_may_cover_a_host_table(table: str) -> None:
    for prefix in (table, table[:3].upper()):
        with pytest.raises(TablePrefixError) as raised:
            TablePrefixes().including(spec(prefix))
        assert table in raised.value.hidden
        assert raised.value.source == "gone_module:install"


def test_host_tables_are_complete() -> None:
    assert set(host_metadata.tables) <= HOST_TABLES


def test_longer_than_a_host_table_is_no_collision() -> None:
    assert TablePrefixes().including(spec("runs_audit_")).prefixes == ("runs_audit_",)


def test_host_tables_are_a_parameter() -> None:
    assert TablePrefixes().including(spec("runs"), ["threads"]).prefixes == ("runs",)
    with pytest.raises(TablePrefixError, match=r"'th' would hide host-owned table\(s\) \['Threads'\]"):
        TablePrefixes().including(spec("th"), ["Threads"])
