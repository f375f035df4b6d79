"""YAML documents that are mappings: configuration files and plugin manifests."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is given twice, which YAML would let win silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    problem = f"key {key!r} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)


def parse_mapping(text: bytes | str) -> dict[Any, Any] | None:
    """The document as a dict, or `None` for another kind of document; an empty one is `None` too.

    Raises `ValueError`, in one line with line and column, for what is no YAML and for repeated keys.
    """
    try:
        # Derived from SafeLoader: builds plain values only.
        document = yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        raise ValueError(_one_line(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return document if isinstance(document, dict) else None


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
