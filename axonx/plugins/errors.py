"""What can be wrong with a plugin."""

from __future__ import annotations

from axonx.errors import AxonXError, ConfigurationError


class PluginError(AxonXError):
    """Root of the errors of plugins."""


class ManifestError(PluginError, ValueError):
    """A `plugin.yaml` is missing or does not follow the format."""


class PluginTargetError(PluginError, TypeError):
    """A class that a manifest names is not what its section takes."""


class PluginImportError(PluginError, ImportError):
    """A class that a manifest names cannot be imported."""


class PluginSourceError(PluginError, ConfigurationError):
    """A directory under `plugins.sources` is no plugin, or is installed from elsewhere too."""
