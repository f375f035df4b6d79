"""From the schema of a Job's arguments to one that a tool can carry."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any


def tool_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that has `properties`, possibly none: LangChain and providers read them.

    Injected parameters are not part of it; AxonX keeps them apart from the public ones.
    """
    schema = copy.deepcopy(dict(parameters))
    schema.setdefault("properties", {})
    return schema
