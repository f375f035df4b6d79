"""The host's configuration: `config.yaml` as frozen, validated values."""

from deerflow.config.limits import (
    CustomAgent,
    SubagentLimits,
    SubagentsConfig,
    TokenBudgetConfig,
)
from deerflow.config.load import config_from, load_config
from deerflow.config.plugins import ExtensionSpec
from deerflow.config.request import RequestOptions, clamp_recursion_limit, parse_request_options
from deerflow.config.schema import (
    AppConfig,
    AuthConfig,
    ContextSize,
    ExtensionsConfig,
    GoalConfig,
    MemoryConfig,
    ModelRecord,
    ModelRetryConfig,
    RunsConfig,
    ShutdownConfig,
    SummarizationConfig,
    TitleConfig,
    ToolRecord,
)
from deerflow.config.storage import DatabaseConfig, StreamConfig

__all__ = [
    "AppConfig",
    "AuthConfig",
    "ContextSize",
    "CustomAgent",
    "DatabaseConfig",
    "ExtensionSpec",
    "ExtensionsConfig",
    "GoalConfig",
    "MemoryConfig",
    "ModelRecord",
    "ModelRetryConfig",
    "RequestOptions",
    "RunsConfig",
    "ShutdownConfig",
    "StreamConfig",
    "SubagentLimits",
    "SubagentsConfig",
    "SummarizationConfig",
    "TitleConfig",
    "TokenBudgetConfig",
    "ToolRecord",
    "clamp_recursion_limit",
    "config_from",
    "load_config",
    "parse_request_options",
]
