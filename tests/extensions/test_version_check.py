from __future__ import annotations

from typing import Any

import pytest
from deerflow_extension_api import extension

from deerflow.extensions.errors import EntryRefused
from deerflow.extensions.version_check import check_api_marker


def marked(marker: Any) -> Any:
    def install(registry: Any, config: Any) -> None: ...

    return extension(api=marker)(install)


class HostileText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise AssertionError("code of the extension ran")

    __repr__ = __format__ = __str__  # type: ignore[assignment]


class HostileMeta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise AssertionError("code of the extension ran")


class HostileMarker(metaclass=HostileMeta):
    def __eq__(self, other: object) -> bool:
        raise AssertionError("code of the extension ran")

    __hash__ = None  # type: ignore[assignment]


class RaisingInstall:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    @property
    def __deerflow_api__(self) -> str:
        raise self._error

    def __call__(self, registry: Any, config: Any) -> None: ...


def test_missing_marker_skips_the_check() -> None:
    check_api_marker(lambda registry, config: None, "0.2.1")


@pytest.mark.parametrize("marker", [None, "0.2", "0.2.0", "0.2.1"])
def test_marker_is_accepted_before_1_0(marker: Any) -> None:
    check_api_marker(marked(marker), "0.2.1")


@pytest.mark.parametrize(
    ("marker", "following"),
    [
        ("0.2.2", "0.3"),
        ("0.2.1.1", "0.3"),
        ("0.1.9", "0.2"),
        ("0.3.0", "0.4"),
        ("1.0", "2.0"),
        ("0.0.1", "0.1"),
    ],
)
def test_other_line_or_newer_patch_is_refused_with_the_range_to_install(marker: str, following: str) -> None:
    with pytest.raises(EntryRefused) as raised:
        check_api_marker(marked(marker), "0.2.1")
    assert raised.value.message == (
        f"extension requires extension-api {marker}, host provides 0.2.1. Install a matching version: "
        f"pip install 'deerflow-extension-api>={marker},<{following}'"
    )
    assert raised.value.problem == f"declares incompatible api {marker}"


@pytest.mark.parametrize("marker", ["1.0", "1.2", "1.2.3", "1.0.9"])
def test_from_1_0_on_any_older_minor_is_accepted(marker: str) -> None:
    check_api_marker(marked(marker), "1.2.3")


@pytest.mark.parametrize(
    ("marker", "following"), [("1.2.4", "2.0"), ("1.3", "2.0"), ("2.0", "3.0"), ("0.2", "0.3")]
)
def test_from_1_0_on_newer_minor_or_other_major_is_refused(marker: str, following: str) -> None:
    with pytest.raises(EntryRefused, match=f">={marker},<{following}'"):
        check_api_marker(marked(marker), "1.2.3")


@pytest.mark.parametrize(
    ("marker", "type_name"),
    [
        ("0.2.x", "str"),
        ("", "str"),
        ("1", "str"),
        ("0.2\n", "str"),
        ("0.2.1rc1", "str"),
        ("0..2", "str"),
        ("-0.2", "str"),
        ("0.\u0662", "str"),
        ("9" * 5000 + ".0", "str"),
        (0.2, "float"),
        (0, "int"),
        (("0", "2"), "tuple"),
        (HostileText("0.2"), "HostileText"),
        (HostileMarker(), "HostileMarker"),
    ],
)
def test_anything_but_plain_dotted_numbers_is_refused(marker: Any, type_name: str) -> None:
    with pytest.raises(EntryRefused) as raised:
        check_api_marker(marked(marker), "0.2.1")
    assert raised.value.message == (
        f"extension declares invalid extension-api version marker of type {type_name}; "
        "expected a dotted numeric string such as '0.2'"
    )
    assert raised.value.problem == "declares invalid api marker"


def test_marker_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(EntryRefused) as raised:
        check_api_marker(RaisingInstall(LookupError("gone")), "0.2.1")
    assert raised.value.message == "could not inspect extension-api version marker: LookupError"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_interrupt_and_exit_out_of_a_marker_propagate(stop: type[BaseException]) -> None:
    with pytest.raises(stop):
        check_api_marker(RaisingInstall(stop()), "0.2.1")
