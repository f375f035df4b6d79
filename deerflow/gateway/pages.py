"""Where a page of a list stands in the whole."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

PAGE_HEADERS: Final = ("X-Pagination-Total", "X-Pagination-Next")
MAX_OFFSET: Final = 2**53  # every database can count so far, and so can every client

Limit = Annotated[int, Field(ge=1, le=1000)]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]


def page_headers(total: int, offset: int, length: int) -> dict[str, str]:
    """How many there are in all, and the offset of the next page where there is one."""
    headers = {"X-Pagination-Total": str(total)}
    if length and offset + length < total:
        headers["X-Pagination-Next"] = str(offset + length)
    return headers
