"""Which class stands behind a backend name: `@provider` and the registry of one Application."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from axonx.components.builtin import BUILT_IN_PATHS, EXTRAS
from axonx.errors import (
    InvalidProviderError,
    MissingPackageError,
    ProviderConflictError,
    RegistryFrozenError,
    UnknownProviderError,
)

PROVIDER_NAME = "__axonx_provider_name__"
BASE_CATEGORY = "base"

C = TypeVar("C", bound=type)
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Registration:
    """One class with whoever supplied it: a module's name, or a distribution's."""

    cls: type
    owner: str

    def __str__(self) -> str:
        path = class_path(self.cls)
        return f"'{path}'" if self.owner == self.cls.__module__ else f"'{self.owner}' ({path})"


@dataclass(frozen=True, slots=True)
class Offer:
    """A class of a plugin that is imported when it is first used.

    `target` is `module:Class`; `load` returns the class, or raises what is wrong with it.
    """

    owner: str
    target: str
    load: Callable[[], type]

    def __str__(self) -> str:
        return f"'{self.owner}' ({self.target})"


_built_in: dict[Key, Registration] = {}


def provider(name: str) -> Callable[[C], C]:
    """Declare a class's backend name and return the class unchanged.

    Classes of AxonX itself become built-in providers; any other class is only named, and reaches an
    Application through `Application(providers=...)` or a plugin. A subclass inherits no name.

    Raises `ValueError` for an empty name, `TypeError` for a class that already declares one.
    """
    if not isinstance(name, str) or not name:
        raise ValueError("Provider name must be a non-empty string")

    def declare(cls: C) -> C:
        if PROVIDER_NAME in vars(cls):
            raise TypeError(f"{cls.__name__} already declares a provider name")
        setattr(cls, PROVIDER_NAME, name)
        if cls.__module__ == "axonx" or cls.__module__.startswith("axonx."):
            _add(_built_in, (category_of(cls), name), Registration(cls, cls.__module__))
        return cls

    return declare


def provider_name(cls: type) -> str | None:
    """The name that `@provider` gave to exactly this class, or `None`."""
    name = vars(cls).get(PROVIDER_NAME)
    return name if isinstance(name, str) else None


def class_path(cls: type) -> str:
    """Module and qualified name."""
    return f"{cls.__module__}.{cls.__qualname__}"


def category_of(cls: type) -> str:
    """The category that a class declares in `component_type`.

    Raises `ValueError` where there is none, `TypeError` where it is still the base's.
    """
    category = getattr(cls, "component_type", None)
    if not isinstance(category, str) or not category:
        raise ValueError(
            f"Component type must be a non-empty string: set component_type on {class_path(cls)}"
        )
    if category == BASE_CATEGORY:
        raise InvalidProviderError(
            f"{class_path(cls)} must declare a non-BASE component_type, such as component_type = 'cache'"
        )
    return category


class ProviderRegistry:
    """The classes that one Application can use, by (category, backend).

    Starts with the built-in ones, takes more until `freeze`, and is never shared.
    """

    def __init__(self) -> None:
        self._providers: dict[Key, Registration] = dict(_built_in)
        self._offers: dict[Key, list[Offer]] = {}
        self._frozen = False

    @property
    def frozen(self) -> bool:
        return self._frozen

    @property
    def providers(self) -> Mapping[Key, Registration]:
        """A read-only view of what is loaded, by (category, backend)."""
        return MappingProxyType(self._providers)

    def add(self, category: str, backend: str, cls: type, owner: str | None = None) -> None:
        """Register `cls`; the same class and owner again is accepted silently.

        Without `owner` the class's module owns it. Raises `ProviderConflictError` (a `ValueError`),
        and `RegistryFrozenError` (a `RuntimeError`) after composition.
        """
        if self._frozen:
            raise RegistryFrozenError("Provider registry is frozen")
        if not isinstance(cls, type):
            raise InvalidProviderError("Provider implementation must be a class")
        if not isinstance(category, str) or not category:
            raise ValueError("Component type must be a non-empty string")
        if not isinstance(backend, str) or not backend:
            raise ValueError("Provider name must be a non-empty string")
        self._load_built_in(category, backend)
        _add(self._providers, (category, backend), Registration(cls, owner or cls.__module__))

    def add_provider(self, cls: Any, owner: str | None = None) -> Key:
        """Register a decorated class under the category and name that it declares itself, and return them."""
        if not isinstance(cls, type):
            raise InvalidProviderError(
                f"Provider implementation must be a class, not {type(cls).__name__} {cls!r:.60}"
            )
        category = category_of(cls)
        name = provider_name(cls)
        if name is None:
            raise InvalidProviderError(f"{cls.__name__} must be decorated with @provider(name)")
        self.add(category, name, cls, owner)
        return category, name

    def offer(self, category: str, backend: str, offer: Offer) -> None:
        """Take a class of a plugin without importing it.

        Raises `ProviderConflictError` when the key has another owner. What was there before stays as it
        is; what two plugins offer is refused to whoever asks for it.
        """
        if self._frozen:
            raise RegistryFrozenError("Provider registry is frozen")
        known = self._providers.get((category, backend)) or self._load_built_in(category, backend)
        if known is not None:
            raise _conflict((category, backend), known, offer)
        offers = self._offers.setdefault((category, backend), [])
        offers.append(offer)
        _only_offer((category, backend), offers)

    def get(self, category: str, backend: str) -> type:
        """The class behind a backend name; raises `UnknownProviderError` (a `ValueError`).

        For a class of a plugin that cannot be used: the `AxonXError` that says why.
        """
        registration = self.find(category, backend)
        if registration is None:
            raise UnknownProviderError(category, backend, self.backends(category))
        return registration.cls

    def find(self, category: str, backend: str) -> Registration | None:
        """Class and owner, or `None`; raises as `get` for a class of a plugin that cannot be used."""
        registration = self._providers.get((category, backend))
        return registration or self._load_built_in(category, backend) or self._load_offer(category, backend)

    def backends(self, category: str) -> tuple[str, ...]:
        """The backend names of a category, sorted."""
        keys = self._providers.keys() | BUILT_IN_PATHS.keys() | self._offers.keys()
        return tuple(sorted(name for kind, name in keys if kind == category))

    def freeze(self) -> None:
        """Refuse whatever is added from now on."""
        self._frozen = True

    def _load_built_in(self, category: str, backend: str) -> Registration | None:
        path = BUILT_IN_PATHS.get((category, backend))
        if path is None or (category, backend) in self._providers:
            return None
        module, _, name = path.partition(":")
        try:
            cls = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((category, backend))
            command = f"pip install 'deerflow[{extra}]'" if extra else f"pip install {error.name}"
            raise MissingPackageError(
                f"{category}:{backend} needs the package {error.name!r}, which is not installed: {command}"
            ) from error
        registration = self._providers[category, backend] = Registration(cls, module)
        return registration

    def _load_offer(self, category: str, backend: str) -> Registration | None:
        offers = self._offers.get((category, backend))
        if not offers:
            return None
        offer = _only_offer((category, backend), offers)
        registration = self._providers[category, backend] = Registration(offer.load(), offer.owner)
        return registration


def _only_offer(key: Key, offers: list[Offer]) -> Offer:
    if len(offers) > 1:
        kind = f"Task {key[1]!r}" if key[0] == "task" else f"Component backend {key[0]}:{key[1]}"
        one_owner = len({offer.owner for offer in offers}) == 1
        owners = " and ".join(str(offer) if one_owner else repr(offer.owner) for offer in offers)
        raise ProviderConflictError(f"{kind} is provided by plugins {owners}; uninstall one of them")
    return offers[0]


def _add(providers: dict[Key, Registration], key: Key, new: Registration) -> None:
    old = providers.setdefault(key, new)
    if old is new or (old.cls is new.cls and old.owner == new.owner):
        return
    raise _conflict(key, old, new)


def _conflict(key: Key, old: Registration, new: Registration | Offer) -> ProviderConflictError:
    return ProviderConflictError(
        f"Provider '{key[0]}:{key[1]}' is supplied by both {old} and {new}; "
        "rename one with @provider or leave one out"
    )
