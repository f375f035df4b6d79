"""What keeps a service from starting."""

from __future__ import annotations

from axonx.errors import AxonXError


class ServiceStartError(AxonXError, OSError):
    """The address cannot be listened on."""
