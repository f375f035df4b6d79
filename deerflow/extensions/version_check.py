"""May an extension that was written for one version of the contract run on this host?"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Any, Final

from deerflow.extensions.cancellation import must_propagate
from deerflow.extensions.diagnostics import type_name
from deerflow.extensions.errors import EntryRefused

# At most 18 digits each: int() refuses thousands of digits with an error of its own.
_DOTTED_NUMBERS: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})+")


def check_api_marker(install: Any, host: str) -> None:
    """Raise EntryRefused unless `install` has no version marker or one that `host`, a version, satisfies.

    Before 1.0 that is the same major and minor and a patch no newer than the host's; from 1.0 on the same
    major, and a minor and patch no newer. No code of the extension runs while a message is built.
    """
    marker = _read_marker(install)
    if marker is None:
        return
    if type(marker) is not str or not _DOTTED_NUMBERS.fullmatch(marker):
        raise EntryRefused(
            "extension declares invalid extension-api version marker of type "
            f"{type_name(marker)}; expected a dotted numeric string such as '0.2'",
            "declares invalid api marker",
        )
    if not _satisfies(_numbers(marker), _numbers(host)):
        raise EntryRefused(
            f"extension requires extension-api {marker}, host provides {host}. Install a matching version: "
            f"pip install 'deerflow-extension-api>={marker},<{_next_incompatible(marker)}'",
            f"declares incompatible api {marker}",
        )


def _read_marker(install: Any) -> Any:
    try:
        return getattr(install, "__deerflow_api__", None)
    except BaseException as error:  # reading it may run any code of the extension
        if must_propagate(error):
            raise
        raise EntryRefused(
            f"could not inspect extension-api version marker: {type_name(error)}",
            "declares invalid api marker",
        ) from None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _satisfies(declared: tuple[int, ...], host: tuple[int, ...]) -> bool:
    fixed = 2 if host[0] == 0 else 1
    pairs = list(zip_longest(declared, host, fillvalue=0))
    same_line = all(wanted == given for wanted, given in pairs[:fixed])
    return same_line and [wanted for wanted, _ in pairs] <= [given for _, given in pairs]


def _next_incompatible(declared: str) -> str:
    major, minor, *_ = _numbers(declared)
    return f"0.{minor + 1}" if major == 0 else f"{major + 1}.0"
