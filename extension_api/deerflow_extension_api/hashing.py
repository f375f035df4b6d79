"""One text, and so one hash, for equal values."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys, no white space, and text as it is (not escaped to ASCII).

    Keys that are numbers, booleans or `None` become text as in `json.dumps`. Raises `TypeError` for what JSON
    cannot hold, `ValueError` for NaN, infinities and values that contain themselves.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_hash(value: Any) -> str:
    """Return the SHA-256 of `canonical_json(value)` in UTF-8, as 64 hexadecimal digits.

    Text never fails: lone surrogates are encoded as they are. Other errors are those of `canonical_json`.
    """
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()
