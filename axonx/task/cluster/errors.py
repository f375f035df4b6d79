"""What can go wrong with a cluster, apart from the Tasks in it."""

from __future__ import annotations

from axonx.task.errors import TaskError


class ClusterError(TaskError, OSError):
    """The Dask cluster cannot be reached, or does not suit the service."""
