"""What can go wrong between the host and its database."""

from __future__ import annotations

from sqlalchemy.exc import DontWrapMixin

from deerflow.errors import DeerFlowError, InvalidRequestError, UnavailableError


class DatabaseUnavailableError(UnavailableError):
    """The database cannot be reached, does not answer in time, or has been closed."""


class SchemaError(DeerFlowError):
    """The database's tables do not fit this release; the text names the command that mends it."""


class NewerReleaseError(SchemaError):
    """The database is at a revision that this release does not know; `location` shows no password."""

    def __init__(self, location: object, revision: str) -> None:
        super().__init__(
            f"database {location} is at revision {revision}, which this release does not know: "
            "install the release that made it, or name another database in database.url"
        )


class UnstorableValueError(DontWrapMixin, InvalidRequestError):
    """A value that JSON cannot hold, or a moment without its time zone, was to be stored."""
