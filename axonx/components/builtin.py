"""The providers that come with AxonX, by (category, backend), as `module:Class`.

Paths instead of classes: a module is imported when a configuration first uses its backend, so that an
Application pays only for what it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BUILT_IN_PATHS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("job", "pipeline"): "axonx.components.job.pipeline:PipelineJob",
    }
)
