"""The configuration that a command works with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from axonx.core.yaml_mapping import parse_mapping
from axonx.errors import ConfigurationError
from axonx.task.defaults import TASK_COMPONENTS, TASK_JOBS

DEFAULT_FILE = "axonx.yaml"

F = TypeVar("F", bound=Callable[..., Any])

_PUBLIC = {"requires_auth": False}
_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}

#: What an application without a configuration file has.
BUILT_IN_CONFIGURATION: dict[str, Any] = {
    "components": TASK_COMPONENTS,
    "jobs": {
        "demo": {
            "description": "Greet someone.",
            "parameters": _NAME,
            "steps": [{"backend": "demo_step"}],
            **_PUBLIC,
        },
        "help": {"description": "List the Jobs.", "steps": [{"backend": "help_step"}], **_PUBLIC},
        "version": {
            "description": "Tell the version of AxonX.",
            "steps": [{"backend": "version_step"}],
            **_PUBLIC,
        },
        **TASK_JOBS,
    },
}


def config_option(function: F) -> F:
    """The option `--config`."""
    option = click.option(
        "--config",
        "config_file",
        metavar="FILE",
        envvar="AXONX_CONFIG",
        help=f"Configuration in YAML. Default: {DEFAULT_FILE}, if there is one, else a built-in one.",
    )
    return option(function)


def load_configuration(file: str | None) -> dict[str, Any]:
    """The keywords for `Application`.

    Raises `FileNotFoundError` for a named file that is missing, `ConfigurationError` (a `ValueError`) for one
    that is no mapping.
    """
    path = Path(file or DEFAULT_FILE)
    if file is None and not path.exists():
        return dict(BUILT_IN_CONFIGURATION)
    try:
        document = parse_mapping(path.read_bytes())
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    if document is None or not all(isinstance(key, str) for key in document):
        raise ConfigurationError(f"{path}: the configuration must be a mapping of names to values")
    return document


def task_configuration(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a configuration that Tasks need: where they are, which there are, and what runs them."""
    kept = ("app_name", "workspace_dir", "timezone", "environment", "plugins")
    parts = {key: config[key] for key in kept if key in config}
    components = config.get("components")
    own = components if isinstance(components, dict) else {}
    runner = {key: own[key] for key in ("task_repository", "task_manager", "task_runner") if key in own}
    return {**parts, "components": {**TASK_COMPONENTS, **runner}}
