"""What a configuration says beside the schema: unknown keys, and keys with nothing behind them."""

from __future__ import annotations

import difflib
import logging
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

from deerflow.config.fields import Section

logger = logging.getLogger(__name__)


def settle(section: type[Section], data: Any, path: str = "") -> Any:
    """Return `data` without the keys that `section` does not know and without empty ones; each is logged.

    Records that refuse or collect unknown keys themselves keep them. What is no mapping is returned as it is.
    """
    if not isinstance(data, Mapping):
        return data
    extra = section.model_config.get("extra")
    settled: dict[Any, Any] = {}
    for key, value in data.items():
        here = f"{path}.{key}" if path else str(key)
        field = section.model_fields.get(key) if isinstance(key, str) else None
        if field is None and extra == "ignore":
            logger.warning("configuration: unknown key %s is ignored%s", here, suggestion(key, section))
        elif field is not None and value is None and extra != "forbid" and not _takes_none(field.annotation):
            logger.warning("configuration: %s is empty; the default applies", here)
        else:
            settled[key] = value if field is None else _settle_value(field.annotation, value, here)
    return settled


def suggestion(key: Any, section: type[Section]) -> str:
    """Return `; did you mean 'x'?` where a key of the section is close, else nothing."""
    close = difflib.get_close_matches(str(key), section.model_fields, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _settle_value(annotation: Any, value: Any, path: str) -> Any:
    section = section_in(annotation)
    if section is None:
        return value
    container = get_origin(annotation)
    if container is tuple and isinstance(value, list | tuple):
        return [settle(section, item, f"{path}[{index}]") for index, item in enumerate(value)]
    if container is dict and isinstance(value, Mapping):
        return {key: _settle_entry(section, item, f"{path}.{key}") for key, item in value.items()}
    return settle(section, value, path)


def _settle_entry(section: type[Section], value: Any, path: str) -> Any:
    if value is None:
        logger.warning("configuration: %s is empty; the default applies", path)
        return {}
    return settle(section, value, path)


def section_in(annotation: Any) -> type[Section] | None:
    """Return the section that an annotation such as `tuple[X, ...]`, `dict[str, X]` or `X | None` holds."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for part in get_args(annotation) if (found := section_in(part))), None)


def _takes_none(annotation: Any) -> bool:
    """Tell whether `null` is a value here; of a list or a section it is always an emptied one."""
    if get_origin(annotation) not in (Union, types.UnionType) or type(None) not in get_args(annotation):
        return False
    return section_in(annotation) is None and not any(
        get_origin(part) is tuple for part in get_args(annotation)
    )
