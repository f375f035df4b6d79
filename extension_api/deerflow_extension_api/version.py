"""The version of this contract, which the host compares with an extension's marker."""

from __future__ import annotations

from typing import Final

API_VERSION: Final = "0.2.1"
