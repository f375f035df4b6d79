"""Let `hypothesis-jsonschema` work with hypothesis' newer class for collections, on which it builds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hypothesis_jsonschema._from_schema as generation
from hypothesis.internal.conjecture import utils

_END = object()


class _Many(utils.many):
    """The collection that is asked for more instead of being iterated over."""

    def more(self) -> bool:
        if not hasattr(self, "_elements"):
            self._elements = iter(self.__enter__())
        return next(self._elements, _END) is not _END


def support_collections() -> None:
    """Give the generator of JSON objects the collections that it knows, where hypothesis has none."""
    if not hasattr(utils.many, "more"):
        names: dict[str, Any] = {**vars(utils), "many": _Many}
        generation.cu = SimpleNamespace(**names)
