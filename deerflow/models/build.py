"""From a model record of the configuration to a chat model."""

from __future__ import annotations

import difflib
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from langchain_core.language_models import BaseChatModel, ModelProfile
from pydantic import AliasChoices, BaseModel, ValidationError

from deerflow.config import AppConfig, ModelRecord
from deerflow.config.problems import dotted
from deerflow.config.reference import import_reference
from deerflow.errors import ConfigError
from deerflow.models.sides import both_sided_model
from deerflow.models.whole_arguments import with_whole_arguments

logger = logging.getLogger(__name__)

# A client's own repetitions would multiply with those of `model_retry`, and nobody would see them.
_RETRIES = "max_retries"


def build_chat_model(
    config: AppConfig,
    name: str | None = None,
    *,
    thinking_enabled: bool | None = None,
    reasoning_effort: str | None = None,
) -> BaseChatModel:
    """Return a new chat model of the record `name`, by default the first one.

    The two wishes go to models whose record says `supports_thinking`: as keyword arguments of these names,
    where the class or factory takes them. `ConfigError` says which record cannot be built, and the edit.
    """
    source = _find(config, name)
    target = source.resolve()
    kwargs = source.record.fresh_kwargs()
    source.name_unknown(kwargs, target)
    if _RETRIES in (_field_names(target) or ()):
        kwargs.setdefault(_RETRIES, 0)
    if source.record.supports_thinking:
        wishes = {"thinking_enabled": thinking_enabled, "reasoning_effort": reasoning_effort}
        kwargs |= source.accepted(target, wishes)
    return source.call(target, kwargs)


def warn_of_missing_models(config: AppConfig) -> None:
    """Import what each record of the configuration names, and warn of what is not there.

    Only a warning: runs that ask for another model need not suffer from it.
    """
    for index, record in enumerate(config.models):
        try:
            _Source(index, record).resolve()
        except ConfigError as error:
            logger.warning("%s; runs that ask for this model will fail", error)


def _find(config: AppConfig, name: str | None) -> _Source:
    for index, record in enumerate(config.models):
        if name is None or record.name == name:
            return _Source(index, record)
    known = ", ".join(map(repr, config.model_names))
    raise ConfigError(f"model {name!r} is not configured; known: {known}")


@dataclass(frozen=True)
class _Source:
    """One record with its place in the file."""

    index: int
    record: ModelRecord

    @property
    def where(self) -> str:
        return f"models[{self.index}].use (model {self.record.name!r})"

    def fail(self, reason: str, cause: BaseException | None = None) -> NoReturn:
        raise ConfigError(f"{self.where}: {self.record.use!r} {reason}") from cause

    def resolve(self) -> Callable[..., Any]:
        target = import_reference(self.record.use, where=self.where, example="langchain_openai:ChatOpenAI")
        if not callable(target):
            self.fail(f"is a {type(target).__name__}; name a class or factory")
        return cast(Callable[..., Any], target)

    def accepted(self, target: Callable[..., Any], wishes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the wishes that were made and that `target` takes."""
        made = {key: value for key, value in wishes.items() if value is not None}
        taken = {key: value for key, value in made.items() if _takes(target, key)}
        for key in made.keys() - taken.keys():
            logger.warning("model %r: %s takes no %s; none is passed", self.record.name, self.record.use, key)
        return taken

    def name_unknown(self, kwargs: Mapping[str, Any], target: Callable[..., Any]) -> None:
        """Warn of keys that a pydantic class has no field for: most such classes drop them in silence."""
        names = _field_names(target)
        if names is None:
            return
        for key in kwargs.keys() - names:
            close = difflib.get_close_matches(key, [*names, *ModelRecord.model_fields], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            logger.warning("models[%d].%s: %s has no such field%s", self.index, key, self.record.use, hint)

    def call(self, target: Callable[..., Any], kwargs: dict[str, Any]) -> BaseChatModel:
        try:
            model = target(**kwargs)
        except ValidationError as error:
            self.fail(f"refuses its keys: {_summary(error, self.index)}", error)
        except Exception as error:  # noqa: BLE001 - a class or factory may fail in any way
            keys = ", ".join(kwargs) or "none"
            self.fail(f"cannot be built: {type(error).__name__}: {error}; its keys are: {keys}", error)
        if inspect.iscoroutine(model):
            model.close()
        if not isinstance(model, BaseChatModel):
            self.fail(f"gave a {type(model).__name__}; name a LangChain chat model class or a factory of one")
        return both_sided_model(with_whole_arguments(self._with_window(model)))

    def _with_window(self, model: BaseChatModel) -> BaseChatModel:
        """Tell the model its `max_input_tokens`: summaries at a fraction of the window read it there."""
        if self.record.max_input_tokens is None:
            return model
        profile: ModelProfile = {**(model.profile or {}), "max_input_tokens": self.record.max_input_tokens}
        return model.model_copy(update={"profile": profile})


def _takes(target: Callable[..., Any], key: str) -> bool:
    names = _field_names(target)
    if names is not None:
        return key in names
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return False
    return key in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _field_names(target: Callable[..., Any]) -> set[str] | None:
    """Return the keyword arguments of a pydantic class, aliases included; `None` for anything else."""
    if not (isinstance(target, type) and issubclass(target, BaseModel)):
        return None
    names: set[str] = set(target.model_fields)
    for field in target.model_fields.values():
        alias = field.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        names.update(choice for choice in choices if isinstance(choice, str))
    return names


def _summary(error: ValidationError, index: int) -> str:
    """Return the places and messages without the values, which may be secret."""
    return "; ".join(
        f"{dotted(('models', index, *details['loc']))}: {details['msg']}"
        for details in error.errors(include_url=False, include_input=False)
    )
