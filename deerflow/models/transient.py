"""Which failures of a model call may be cured by calling again."""

from __future__ import annotations

_RETRIED_STATUS_CODES = frozenset({408, 409, 429})
# HTTP clients and SDKs have trees of their own; these names are common to httpx, openai and anthropic.
_RETRIED_NAMES = frozenset({"APIConnectionError", "APITimeoutError", "TransportError", "TimeoutException"})


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    status_code = getattr(error, "status_code", None)
    if isinstance(status_code, int):
        return status_code in _RETRIED_STATUS_CODES or status_code >= 500
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return bool({kind.__name__ for kind in type(error).__mro__} & _RETRIED_NAMES)
