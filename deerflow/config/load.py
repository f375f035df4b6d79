"""From a file or a mapping to an `AppConfig`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deerflow.config.environment import Expansion
from deerflow.config.problems import config_error, problems_of
from deerflow.config.schema import AppConfig
from deerflow.config.yaml_file import read_yaml
from deerflow.errors import ConfigError

PATH_VARIABLE = "DEER_FLOW_CONFIG_PATH"
DEFAULT_FILE = Path("config.yaml")


def load_config(path: str | os.PathLike[str] | None = None) -> AppConfig:
    """Return the configuration of the first of: `path`, `DEER_FLOW_CONFIG_PATH`, `config.yaml` here.

    Only the last may be missing; the defaults apply then. Everything wrong with the file is in one
    `ConfigError`: a line per field with file, path, value and what is allowed.
    """
    named = path or os.environ.get(PATH_VARIABLE)
    file = Path(named) if named else DEFAULT_FILE
    if not file.exists():
        if named:
            origin = "" if path else f" (named by {PATH_VARIABLE})"
            raise ConfigError(f"{file}: no such file{origin}; create it, or name another one")
        return AppConfig()
    if not file.is_file():
        raise ConfigError(f"{file}: is not a file; name a YAML file")
    return _validated(read_yaml(file), source=str(file))


def config_from(value: AppConfig | str | os.PathLike[str] | Mapping[str, Any] | None = None) -> AppConfig:
    """Return `value` as configuration: itself, the file that it names, the mapping, or what is found.

    A mapping is read like a file's content, references to environment variables included.
    """
    if isinstance(value, AppConfig):
        return value
    if isinstance(value, Mapping):
        return _validated(value, source="")
    if value is None or isinstance(value, str | os.PathLike):
        return load_config(value)
    kind = type(value).__name__
    raise ConfigError(f"configuration: a {kind} is not allowed; allowed: AppConfig, path, mapping or None")


def _validated(data: Mapping[Any, Any], source: str) -> AppConfig:
    expansion = Expansion(os.environ)
    expanded = expansion.apply(data)
    problems = expansion.problems
    unresolved = {problem.path for problem in problems}
    try:
        config = AppConfig.model_validate(expanded)
    except ValidationError as error:
        problems += [problem for problem in problems_of(error) if problem.path not in unresolved]
    if problems:
        raise config_error(problems, source)
    return config
