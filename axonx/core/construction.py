"""Building one configured object, so that an error names its entry in the configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from axonx.components.base import FRAMEWORK_OPTIONS, accepted_options
from axonx.errors import ConfigurationError, UnknownOptionError

T = TypeVar("T")


def construct(cls: type, entry: str, options: Mapping[str, Any], build: Callable[[], T]) -> T:
    """Call `build`, which constructs `cls` with the framework's keywords and `options`.

    Raises `ConfigurationError` for options that the class does not take, lacks or reserves; other errors
    of the constructor leave as they are, with a note that names the entry.
    """
    if reserved := sorted(FRAMEWORK_OPTIONS & options.keys()):
        raise ConfigurationError(
            f"{entry}: {', '.join(map(repr, reserved))} is set by AxonX (the name is the entry's key); "
            "rename the option"
        )
    try:
        return build()
    except UnknownOptionError as error:
        if error.cls is cls:
            error.entry = entry
        raise
    except Exception as error:
        if isinstance(error, TypeError):
            _explain(cls, entry, options)
        error.add_note(f"while building {entry}")
        raise


def _explain(cls: type, entry: str, options: Mapping[str, Any]) -> None:
    """Raise a better error if the TypeError came from a signature that does not fit."""
    signature = inspect.signature(cls)
    given = {**dict.fromkeys(FRAMEWORK_OPTIONS), **options}
    try:
        signature.bind(**given)
    except TypeError as mismatch:
        parameters = signature.parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        unknown = [name for name in options if name not in parameters]
        if unknown and not takes_any:
            found = UnknownOptionError(cls, unknown, accepted_options(cls))
            found.entry = entry
            raise found from None
        if not takes_any:
            raise ConfigurationError(
                f"{entry}: {cls.__qualname__}.__init__ must take **kwargs and pass them to super().__init__"
            ) from None
        raise ConfigurationError(f"{entry}: {cls.__qualname__}: {mismatch}") from None
