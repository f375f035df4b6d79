"""Reading a YAML file of configuration: nothing is lost in silence."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from deerflow.errors import ConfigError


class _StrictLoader(yaml.SafeLoader):
    """Refuses a mapping that has a key twice: the first value would vanish."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice in one mapping; keep one", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[Any, Any]:
    """Return the file's mapping, empty where the file says nothing.

    Anything that is not a readable YAML mapping in UTF-8 is a `ConfigError` naming file and line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        data = yaml.load(text, Loader=_StrictLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}; make it a readable file in UTF-8") from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{path}: {_where(error)}{error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid YAML: {error}") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: holds a {type(data).__name__}; allowed: a mapping of sections")
    return data


def _where(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
