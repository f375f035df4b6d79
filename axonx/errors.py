"""Every error that AxonX raises, under one root.

Each class is also the built-in exception that fits it (`ValueError`, `TypeError`, `RuntimeError`,
`KeyError`), so that a general `except` clause catches it as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class AxonXError(Exception):
    """Root of the tree."""


class ConfigurationError(AxonXError, ValueError):
    """A value of the configuration cannot be used; the message names the entry."""


class UnknownOptionError(ConfigurationError, TypeError):
    """An entry of the configuration carries options that its class does not take.

    `entry` is the path in the configuration, or the class's name when it was built by hand.
    """

    def __init__(self, cls: type, unknown: Sequence[str], accepted: Sequence[str]) -> None:
        super().__init__(cls, unknown, accepted)
        self.cls = cls
        self.unknown = tuple(unknown)
        self.accepted = tuple(accepted)
        self.entry = cls.__name__

    def __str__(self) -> str:
        names = ", ".join(repr(name) for name in self.unknown)
        takes = ", ".join(self.accepted) or "no options"
        text = f"{self.entry}: {self.cls.__qualname__} does not take {names}; it takes: {takes}"
        near = difflib.get_close_matches(self.unknown[0], self.accepted, n=1)
        return f"{text}. Did you mean {near[0]!r}?" if near else text


class InvalidProviderError(AxonXError, TypeError):
    """What was given as a provider is not a class that can be one."""


class ProviderConflictError(AxonXError, ValueError):
    """Two different classes, or two owners, claim one (category, backend)."""


class UnknownProviderError(AxonXError, ValueError):
    """No class is registered for a (category, backend)."""

    def __init__(self, category: str, backend: str, known: Iterable[str]) -> None:
        super().__init__(category, backend)
        self.category = category
        self.backend = backend
        self.known = tuple(sorted(known))

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none; give its class to Application(providers=...)"
        return f"Unknown {self.category} backend: {self.backend} (known: {known})"


class MissingPackageError(ConfigurationError, ImportError):
    """A built-in provider needs a package of an extra that is not installed."""


class RegistryFrozenError(AxonXError, RuntimeError):
    """A provider came after composition."""


class DependencyError(AxonXError, ValueError):
    """A declared dependency cannot be fulfilled: bad name, missing instance, cycle."""


class DependencyTypeError(DependencyError, TypeError):
    """A dependency is there but is not an instance of the class that was expected."""


class LateDependencyError(DependencyError, RuntimeError):
    """`depend` was called when composition was already over."""


class NoApplicationError(AxonXError, RuntimeError):
    """The object was built by hand and has no application to ask."""


class ComponentNotFoundError(AxonXError, KeyError):
    """No component of that category and name is configured."""

    def __init__(self, category: str, name: str, known: Iterable[str]) -> None:
        super().__init__(category, name)
        self.category = category
        self.name = name
        self.known = tuple(known)

    def __str__(self) -> str:
        known = ", ".join(self.known) or "nothing"
        return f"no component {self.category}:{self.name}; configured under {self.category}: {known}"


class HookCancelledError(AxonXError, RuntimeError):
    """A `_start` raised `CancelledError` although nobody cancelled the start."""


class NotRunningError(AxonXError, RuntimeError):
    """The Application, or the Job, has not been started or is closed."""


class UnknownJobError(AxonXError, ValueError):
    """No Job of that name is configured."""


class InvalidArgumentsError(AxonXError, ValueError):
    """The arguments of a call do not fit the Job's schema, or use reserved names."""


class ArgumentsTypeError(InvalidArgumentsError, TypeError):
    """The arguments of a call are not a mapping of names to values."""


class StreamingNotSupportedError(AxonXError, ValueError):
    """The Job was configured with `enable_stream: false`."""


class TargetError(AxonXError, ValueError):
    """A call's `target` cannot be parsed or is not configured."""


class InvalidEventError(AxonXError, TypeError):
    """What a Step emitted is not an event that a Step may emit."""


class PathOutsideWorkspaceError(AxonXError, ValueError):
    """A path is absolute, climbs with `..`, or leaves the workspace through a link."""
