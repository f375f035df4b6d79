"""One record of the `plugins:` list: which extension to load, and how."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, field_validator

from deerflow.config.fields import Flag, OwnMapping, Section, Text, own_copy


class ExtensionSpec(Section):
    """What one `plugins:` record says.

    `use` names `module.path:attribute`; whether it can be resolved is found out when it is loaded.
    `name` and `package` are for operators. What is nested in `config` belongs to this record alone.
    A key that a record does not know is an error: a misspelt `required` must not pass in silence.
    """

    model_config = ConfigDict(extra="forbid")

    use: Text
    name: str | None = None
    package: str | None = None
    enabled: Flag = True
    required: Flag = False
    config: OwnMapping = Field(default_factory=dict)
    table_prefix: Text | None = None

    @field_validator("config", mode="before")
    @classmethod
    def _nothing_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value

    def fresh_config(self) -> dict[str, Any]:
        """Return a copy of `config`; changing it at any depth leaves this record as it is."""
        return {key: own_copy(value) for key, value in self.config.items()}
