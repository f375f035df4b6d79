"""The base of everything that belongs to an Application, and of what it starts and closes."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from axonx.components.dependency import Dependency, Unresolved, category_of_base, check_attribute
from axonx.components.registry import BASE_CATEGORY
from axonx.core.paths import confined
from axonx.errors import (
    DependencyError,
    HookCancelledError,
    LateDependencyError,
    NoApplicationError,
    UnknownOptionError,
)

if TYPE_CHECKING:
    from axonx.config import ApplicationConfig
    from axonx.core.app_context import AppContext

FRAMEWORK_OPTIONS = frozenset({"name", "backend", "app_context"})
_RESERVED_ATTRIBUTES = FRAMEWORK_OPTIONS | {"kwargs", "logger"}


class ComponentBase:
    """What is bound to an Application's context: components, Jobs and Steps.

    Subclasses take their options as keywords and pass the rest up: `def __init__(self, url, **kwargs):
    super().__init__(**kwargs)`. An option that no class on the way takes is refused with
    `UnknownOptionError`, unless the class sets `accepts_extra_options`; then it lands in `self.kwargs`.
    """

    component_type: ClassVar[str] = BASE_CATEGORY
    accepts_extra_options: ClassVar[bool] = False

    def __init__(
        self,
        *,
        name: str | None = None,
        backend: str | None = None,
        app_context: AppContext | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs and not self.accepts_extra_options:
            raise UnknownOptionError(type(self), tuple(kwargs), accepted_options(type(self)))
        self.name = name or type(self).__name__
        self.backend = backend or ""
        self.app_context = app_context
        self.kwargs = kwargs

    @cached_property
    def logger(self) -> logging.Logger:
        """A standard logger under the application's own, named after category and name."""
        name = f"{self.component_type}.{self.name}"
        if self.app_context is None:
            return logging.getLogger(f"axonx.{name}")
        return self.app_context.logger_for(name)

    @property
    def app_config(self) -> ApplicationConfig:
        if self.app_context is None:
            raise NoApplicationError("Application config requires an application context")
        return self.app_context.config

    @property
    def workspace_path(self) -> Path:
        """The application's workspace directory; the working directory without an application."""
        return Path.cwd() if self.app_context is None else self.app_context.workspace_path

    def get_component(self, component_type: str, name: str = "default") -> Any:
        """The configured component; raises `ComponentNotFoundError` (a `KeyError`)."""
        if self.app_context is None:
            raise NoApplicationError("Component access requires an application context")
        return self.app_context.component(component_type, name)

    def workspace_file(self, path: str) -> Path:
        """Resolve a relative path that came from outside.

        Raises `PathOutsideWorkspaceError` (a `ValueError`) for absolute paths, `..`, `~`, backslashes and
        links that lead out. Touches the file system: call it from a thread for slow disks.
        """
        return confined(self.workspace_path, path)

    def __repr__(self) -> str:
        backend = f" backend={self.backend!r}" if self.backend else ""
        return f"<{type(self).__qualname__} {self.component_type}:{self.name}{backend}>"


class BaseComponent(ComponentBase):
    """A long-lived part of an Application: override `_start` and `_close`.

    `start` and `close` may be called again and at the same time; they run one after the other, and
    twice does nothing. After `close` the same object can be started again. If `_start` fails or is
    cancelled, `_close` runs before the error leaves, so that what was opened can be released.

    A component is shared by identity: copying it returns the object itself.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._is_started = False
        self._lifecycle_changing = False
        self._lifecycle_turns: list[asyncio.Future[None]] = []
        self._declared_dependencies: dict[str, Dependency] = {}
        self._is_composed = False

    async def _start(self) -> None:
        """Open what this component needs."""

    async def _close(self) -> None:
        """Release what `_start` opened, also when it opened only a part."""

    @property
    def is_started(self) -> bool:
        return self._is_started

    async def start(self) -> None:
        """Run `_start` once; errors leave as they are, after this component's `_close`.

        If `_close` fails too: `ExceptionGroup` of both.
        """
        while self._lifecycle_changing:
            await self._next_turn()
        if self._is_started:
            return
        self._lifecycle_changing = True
        try:
            await self._start()
            self._is_started = True
        except BaseException as error:
            await self._undo_start(error)
            raise
        finally:
            self._lifecycle_changing = False
            if self._lifecycle_turns:
                self._next_turn_begins()

    async def close(self) -> None:
        """Run `_close` once. An interrupted close leaves the component started, to be closed again."""
        while self._lifecycle_changing:
            await self._next_turn()
        if not self._is_started:
            return
        self._lifecycle_changing = True
        try:
            await self._close()
            self._is_started = False
        except BaseException as error:
            self._is_started = _is_cancellation(error)
            raise
        finally:
            self._lifecycle_changing = False
            if self._lifecycle_turns:
                self._next_turn_begins()

    async def _undo_start(self, error: BaseException) -> None:
        cancelled = _is_cancellation(error)
        context = self.app_context
        limit_seconds = context.config.component_close_timeout_seconds if context else None
        try:
            async with asyncio.timeout(limit_seconds):
                await self._close()
        except BaseException as close_error:
            if cancelled:
                self.logger.exception("%s: rollback of a cancelled start failed", self.name)
                return
            message = f"{self.name} startup failed and rollback was incomplete"
            raise BaseExceptionGroup(message, [error, close_error]) from error
        if isinstance(error, asyncio.CancelledError) and not cancelled:
            raise HookCancelledError(
                f"{self!r}: _start raised CancelledError although nobody cancelled the start"
            ) from error

    async def _next_turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._lifecycle_turns.append(turn)
        await turn

    def _next_turn_begins(self) -> None:
        turns, self._lifecycle_turns = self._lifecycle_turns, []
        for turn in turns:
            if not turn.done():
                turn.set_result(None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def depend(self, attribute: str, name: str | None, base_cls: type, *, required: bool = True) -> None:
        """Declare, in `__init__`, that `self.<attribute>` is the component `name` of `base_cls`'s category.

        The application checks every declaration before it starts anything, and injects the instance
        before `_start`. Without a name an optional dependency is `None`.

        Raises `DependencyError` (a `ValueError`) for a name that would replace a member of this object
        or is taken, and when it is called after composition; `TypeError` for a class without category.
        """
        if self._is_composed:
            raise LateDependencyError(
                f"{self!r} is composed already: declare {attribute!r} with depend() in __init__"
            )
        if isinstance(attribute, str) and attribute in self._declared_dependencies:
            raise DependencyError(f"Dependency attribute already declared: {attribute}")
        check_attribute(attribute, self, _RESERVED_ATTRIBUTES)
        if not name:
            if required:
                raise DependencyError(f"Dependency {attribute!r} requires a component name")
            setattr(self, attribute, None)
            return
        category = category_of_base(base_cls)
        placeholder = Unresolved(category, name)
        self._declared_dependencies[attribute] = Dependency(
            attribute, category, name, base_cls, required, placeholder
        )
        setattr(self, attribute, placeholder)

    @property
    def declared_dependencies(self) -> Collection[Dependency]:
        """What `depend` has declared, in order."""
        return self._declared_dependencies.values()

    def mark_composed(self) -> None:
        """Refuse `depend` from now on; composition calls it after injecting."""
        self._is_composed = True

    def mark_closed(self) -> None:
        """Count an interrupted close as done: the Application does not retry it."""
        self._is_started = False

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def accepted_options(cls: type) -> tuple[str, ...]:
    """The options that a class's constructors take by keyword, from the class up to the base."""
    found: dict[str, None] = {}
    for klass in cls.__mro__:
        constructor = vars(klass).get("__init__")
        if constructor is None:
            continue
        parameters = list(inspect.signature(constructor).parameters.values())[1:]
        named = (p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        found.update(dict.fromkeys(named))
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return tuple(name for name in found if name not in FRAMEWORK_OPTIONS)


def _is_cancellation(error: BaseException) -> bool:
    """Whether the running task was asked to end, and did not raise CancelledError by itself."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
