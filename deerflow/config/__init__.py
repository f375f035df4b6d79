"""The host's configuration: `config.yaml` as frozen, validated values."""

from deerflow.config.plugins import ExtensionSpec

__all__ = ["ExtensionSpec"]
