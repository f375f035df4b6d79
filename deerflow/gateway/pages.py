"""Where a page of a list stands in the whole."""

from __future__ import annotations


def page_headers(total: int, offset: int, length: int) -> dict[str, str]:
    """How many there are in all, and the offset of the next page where there is one."""
    headers = {"X-Pagination-Total": str(total)}
    if length and offset + length < total:
        headers["X-Pagination-Next"] = str(offset + length)
    return headers
