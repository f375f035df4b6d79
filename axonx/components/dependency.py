"""What `depend` records, and the placeholder that stands in its place until composition."""

from __future__ import annotations

import keyword
from dataclasses import dataclass

from axonx.components.registry import BASE_CATEGORY
from axonx.errors import DependencyError, DependencyTypeError


class Unresolved:
    """Stands for a dependency that has not been injected yet; using it says so.

    Safe to print, copy, compare and pickle.
    """

    __slots__ = ("category", "name")

    def __init__(self, category: str, name: str) -> None:
        self.category = category
        self.name = name

    def __repr__(self) -> str:
        return f"<unresolved {self.category}:{self.name}>"

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("__") or attribute in Unresolved.__slots__:
            raise AttributeError(attribute)
        raise AttributeError(
            f"{self.category}:{self.name} is not injected yet, so it has no {attribute!r}: "
            "use it from _start() on, not in __init__"
        )


@dataclass(frozen=True, slots=True)
class Dependency:
    """One declared edge: `attribute` of the dependant becomes the component `category:name`."""

    attribute: str
    category: str
    name: str
    base_cls: type
    required: bool
    placeholder: Unresolved


def check_attribute(attribute: object, owner: object, reserved: frozenset[str]) -> str:
    """Return `attribute` if injecting it overwrites nothing of `owner`; raise `ValueError` otherwise.

    A value of `None` counts as free: it is how classes announce an attribute that comes later.
    """
    if not isinstance(attribute, str) or not attribute.isidentifier() or keyword.iskeyword(attribute):
        raise DependencyError(f"Invalid dependency attribute: {attribute!r}")
    if attribute.startswith("_"):
        raise DependencyError(
            f"Invalid dependency attribute: {attribute!r} (names that begin with '_' are private)"
        )
    taken = attribute in reserved or getattr(type(owner), attribute, None) is not None
    if taken or vars(owner).get(attribute) is not None:
        raise DependencyError(
            f"Invalid dependency attribute: {attribute!r} would replace a member of "
            f"{type(owner).__qualname__}; choose another name"
        )
    return attribute


def category_of_base(base_cls: object) -> str:
    """The category that a dependency's expected class declares; `TypeError` if it declares none."""
    category = getattr(base_cls, "component_type", None)
    if not isinstance(base_cls, type) or not isinstance(category, str):
        raise DependencyTypeError(f"{base_cls!r} must declare a non-BASE component_type")
    if not category or category == BASE_CATEGORY:
        raise DependencyTypeError(f"{base_cls.__qualname__} must declare a non-BASE component_type")
    return category
