"""Bodies with half a character are read as those without one."""

from __future__ import annotations

import pytest
from starlette.exceptions import HTTPException

from deerflow.gateway.json_requests import decode_json

HALF = b'"\\ud835"'


@pytest.mark.parametrize(
    "number", [b"18446744073709551615", b"18446744073709551616", b"-1", b"-1e3", b"1" * 300]
)
def test_a_half_character_changes_no_number(number: bytes) -> None:
    (plain,), (beside, half) = decode_json(b"[%s]" % number), decode_json(b"[%s, %s]" % (number, HALF))
    assert (beside, type(beside), half) == (plain, type(plain), "\ud835")


@pytest.mark.parametrize("number", [b"1e400", b"1" * 400, b"1" * 5000, b"NaN"])
@pytest.mark.parametrize("half", [HALF, b'"whole"'])
def test_a_number_beyond_all_is_refused(number: bytes, half: bytes) -> None:
    with pytest.raises(HTTPException) as caught:
        decode_json(b"[%s, %s]" % (number, half))
    assert caught.value.status_code == 422
