"""Resolve what a configuration names as `module:attribute`."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from deerflow.errors import ConfigError


def import_reference(use: str, *, where: str, example: str) -> Any:
    """The object that `use` names. `ConfigError` says the place (`where`) and the edit."""
    module_name, colon, attribute = use.partition(":")
    if not (module_name and colon and attribute):
        raise ConfigError(
            f"{where}: {use!r} is not of the form module:attribute; write for example {example}"
        )
    module = _import(module_name, f"{where}: {use!r}")
    if not hasattr(module, attribute):
        close = difflib.get_close_matches(attribute, dir(module), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "name an attribute of that module"
        raise ConfigError(f"{where}: {use!r} has no attribute {attribute!r}; {hint}")
    return getattr(module, attribute)


def _import(module_name: str, subject: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if "." in missing and module_name.startswith(missing):
            raise ConfigError(f"{subject} names no module: {error}; correct the path") from error
        package = missing.partition(".")[0].replace("_", "-")
        raise ConfigError(
            f"{subject} needs module {missing!r}, which is not installed; run: pip install {package}, "
            "or put the folder of your own module on PYTHONPATH"
        ) from error
    except Exception as error:  # a module may fail at import in any way
        raise ConfigError(f"{subject} cannot be imported: {type(error).__name__}: {error}") from error
