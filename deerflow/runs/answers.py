"""What a program gives as the answer to a run that waits, checked before a run begins with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from deerflow.errors import InvalidRequestError
from deerflow.runs.request import cleaned

_SERIALIZER: Final = JsonPlusSerializer()
_SHOWN_BITS: Final = 200


def check_answer(answer: Any) -> None:
    """Raise `InvalidRequestError` for what would end the run: nothing, or what no checkpoint can hold."""
    if answer is None:
        raise InvalidRequestError("the answer is None; give what the interrupt asks for")
    if isinstance(answer, Mapping) and not all(isinstance(key, str) for key in answer):
        raise InvalidRequestError(f"the answer has keys that are no text: {list(answer)!r:.100}")
    try:
        _SERIALIZER.dumps_typed(answer)
    except Exception as error:  # an answer may be anything, and fail in any way
        problem = _huge_integer(answer) or f"the answer cannot be kept in a checkpoint: {error}"
        raise InvalidRequestError(problem) from error
    cleaned(answer)


def _huge_integer(answer: Any) -> str | None:
    """Which integer is too large, where it is one; values may contain themselves."""
    pending, seen = [("the answer", answer)], {id(answer)}
    while pending:
        place, value = pending.pop()
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            shown = str(value) if value.bit_length() <= _SHOWN_BITS else f"of {value.bit_length()} bits"
            return (
                f"{place} is an integer beyond 64 bits, which no checkpoint holds: {shown}; give it as text"
            )
        for key, item in _items(value):
            if id(item) not in seen:
                seen.add(id(item))
                pending.append((f"{place}[{key!r:.50}]", item))
    return None


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()
