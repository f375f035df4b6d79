"""Every section of `config.yaml` with its defaults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator

from deerflow.config.drift import settle
from deerflow.config.fields import (
    Amount,
    Count,
    Flag,
    OptionalInt,
    OptionalText,
    PositiveInt,
    Seconds,
    Section,
    Text,
    own_copy,
    refusal,
)
from deerflow.config.guards import GuardsConfig
from deerflow.config.home import find_home, thread_folder
from deerflow.config.limits import SubagentsConfig, TokenBudgetConfig
from deerflow.config.mcp import McpConfig
from deerflow.config.plugins import ExtensionSpec
from deerflow.config.storage import DatabaseConfig, StreamConfig
from deerflow.config.webhooks import WebhooksConfig


class ModelRecord(Section):
    """One chat model. Further keys are keyword arguments of the class or factory that `use` names."""

    model_config = ConfigDict(extra="allow")

    name: Text
    use: Text
    display_name: OptionalText = None
    supports_vision: Flag = False
    supports_thinking: Flag = False
    max_input_tokens: OptionalInt = None

    def fresh_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments as a copy that its receiver may change at any depth."""
        return {key: own_copy(value) for key, value in (self.model_extra or {}).items()}


OFFLINE_MODEL = ModelRecord(name="offline", use="deerflow.models:ScriptedChatModel")


class ToolRecord(Section):
    """One tool of the operator's own: `use` names a LangChain tool, or a class of one, as `module:attribute`.

    `config` holds the keyword arguments of a class.
    """

    use: Text
    config: dict[str, Any] = Field(default_factory=dict)

    def fresh_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments as a copy that its receiver may change at any depth."""
        return {key: own_copy(value) for key, value in self.config.items()}


class ContextSize(Section):
    """A length of conversation: tokens, messages, or a fraction of the model's `max_input_tokens`."""

    type: Literal["tokens", "messages", "fraction"]
    value: Amount

    @model_validator(mode="after")
    def _value_fits_type(self) -> Self:
        if self.type == "fraction" and self.value > 1:
            raise refusal("a fraction above 0 and up to 1", field="value")
        if self.type != "fraction" and not isinstance(self.value, int):
            raise refusal("a whole number from 1", field="value")
        return self


_TOKENS = ContextSize(type="tokens", value=32_000)


class SummarizationConfig(Section):
    """When older messages are replaced by a summary (any trigger suffices), and how much is kept."""

    enabled: Flag = True
    model_name: OptionalText = None
    trigger: Annotated[tuple[ContextSize, ...], Field(min_length=1)] = (
        ContextSize(type="tokens", value=32_000),
    )
    keep: ContextSize = ContextSize(type="messages", value=10)


class TitleConfig(Section):
    """How a thread gets its title; without `model_name` it is cut from the first message, no model asked."""

    enabled: Flag = True
    model_name: OptionalText = None
    max_words: PositiveInt = 6
    max_chars: PositiveInt = 60


class MemoryConfig(Section):
    """Whether facts about a user are kept across threads."""

    enabled: Flag = False
    model_name: OptionalText = None
    debounce_seconds: Seconds = 30
    max_facts: PositiveInt = 100
    max_injection_tokens: PositiveInt = 2_000


class GoalConfig(Section):
    """How often a run goes on by itself towards its thread's goal."""

    max_continuations: Count = 3
    model_name: OptionalText = None


class AuthConfig(Section):
    """Who may call the Gateway: `none` serves loopback only.

    With `users`: how long a session of a browser lasts, whether the documentation is public, and which web
    pages may call besides those of this machine, as origins such as `https://ui.example.com`.
    """

    mode: Literal["none", "users"] = "none"
    public_docs: Flag = False
    session_seconds: Seconds = 604_800
    allowed_origins: tuple[Text, ...] = ()


class ModelRetryConfig(Section):
    """How a failed model call is repeated: exponential delay with jitter."""

    max_retries: Count = 2
    initial_delay_seconds: Seconds = 0.5


class RunsConfig(Section):
    """What bounds a run, and when a host counts as dead.

    `recursion_limit` is the default and the ceiling of graph steps. A host that has not shown itself for
    `lease_seconds` loses its runs to another one; on SQLite a lock tells it at once.
    """

    recursion_limit: PositiveInt = 1_000
    lease_seconds: Seconds = 30


class LoggingConfig(Section):
    """How the Gateway writes its log: lines for people, or one JSON object for each line."""

    format: Literal["text", "json"] = "text"


class TracingConfig(Section):
    """Whether spans go to OpenTelemetry; where to, its own `OTEL_*` variables say.

    `record_content` adds messages, arguments and results. What is left at the end is sent within
    `flush_seconds`, or lost.
    """

    enabled: Flag = False
    record_content: Flag = False
    flush_seconds: Seconds = 5


class ShutdownConfig(Section):
    """How long runs may finish before they are cancelled."""

    drain_seconds: Seconds = 10


class FilesConfig(Section):
    """What people may put into the files of a thread: `max_bytes` is the most that one file may have."""

    max_bytes: PositiveInt = 104_857_600


class ExtensionsConfig(Section):
    """The application's own middlewares (`module:Class`), and the time for an extension's hook."""

    middlewares: tuple[Text, ...] = ()
    hook_timeout_seconds: Seconds = 10


class AppConfig(Section):
    """Everything that `config.yaml` may say; `AppConfig()` is the embedded default.

    `home` is the folder of all state, taken from `DEER_FLOW_HOME` when the value is made.
    """

    models: tuple[ModelRecord, ...] = (OFFLINE_MODEL,)
    tools: tuple[ToolRecord, ...] = ()
    mcp: McpConfig = McpConfig()
    guards: GuardsConfig = GuardsConfig()
    subagents: SubagentsConfig = SubagentsConfig()
    token_budget: TokenBudgetConfig = TokenBudgetConfig()
    summarization: SummarizationConfig = SummarizationConfig()
    title: TitleConfig = TitleConfig()
    memory: MemoryConfig = MemoryConfig()
    goal: GoalConfig = GoalConfig()
    database: DatabaseConfig = DatabaseConfig()
    stream: StreamConfig = StreamConfig()
    auth: AuthConfig = AuthConfig()
    files: FilesConfig = FilesConfig()
    webhooks: WebhooksConfig = WebhooksConfig()
    model_retry: ModelRetryConfig = ModelRetryConfig()
    runs: RunsConfig = RunsConfig()
    shutdown: ShutdownConfig = ShutdownConfig()
    logging: LoggingConfig = LoggingConfig()
    tracing: TracingConfig = TracingConfig()
    plugins: tuple[ExtensionSpec, ...] = ()
    extensions: ExtensionsConfig = ExtensionsConfig()

    _home: Path = PrivateAttr(default_factory=find_home)

    @property
    def home(self) -> Path:
        return self._home

    def based_in(self, home: Path) -> Self:
        """Return the same configuration with its state under `home`."""
        moved = self.model_copy()
        moved._home = home
        return moved

    @property
    def database_url(self) -> str | None:
        """The SQLAlchemy URL without driver; `None` where nothing is stored (`memory`)."""
        return self.database.resolved_url(self.home)

    @property
    def model_names(self) -> tuple[str, ...]:
        return tuple(record.name for record in self.models)

    def workspace_path(self, thread_id: str) -> Path:
        """Return the folder in which a thread's tools work; it may not exist yet."""
        return thread_folder(self.home, thread_id) / "workspace"

    @model_validator(mode="before")
    @classmethod
    def _without_drift(cls, data: Any) -> Any:
        return settle(cls, data)

    @field_validator("models", mode="after")
    @classmethod
    def _names_are_unique(cls, models: tuple[ModelRecord, ...]) -> tuple[ModelRecord, ...]:
        names = [record.name for record in models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise refusal(f"one record per name; named twice: {', '.join(map(repr, twice))}")
        return models or (OFFLINE_MODEL,)

    @model_validator(mode="after")
    def _referenced_models_exist(self) -> Self:
        known = ", ".join(map(repr, self.model_names))
        wrong = [(path, name) for path, name in self._model_references() if name not in self.model_names]
        if wrong:
            raise refusal(f"a configured model: {known}", problems=wrong)
        return self

    def _model_references(self) -> Iterator[tuple[tuple[str, ...], str]]:
        for section in ("summarization", "title", "memory", "goal"):
            if (name := getattr(self, section).model_name) is not None:
                yield (section, "model_name"), name
        for kind in ("agents", "custom_agents"):
            for agent, record in getattr(self.subagents, kind).items():
                if record.model is not None:
                    yield ("subagents", kind, agent, "model"), record.model
