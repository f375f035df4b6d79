"""What can go wrong on the way to another service."""

from __future__ import annotations

from axonx.errors import AxonXError


class RemoteCallError(AxonXError, ConnectionError):
    """The other service could not be reached, refused the token, or broke off; callers get it as a result."""
