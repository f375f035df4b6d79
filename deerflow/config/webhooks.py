"""Which addresses may be told of the ends of runs, and how."""

from __future__ import annotations

import re

from pydantic import field_validator

from deerflow.config.fields import Flag, PositiveInt, Seconds, Section, Text, refusal

# A name, an address in numbers, or any name below one.
_ORIGIN = re.compile(r"https?://(?:(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::\d{1,5})?")


class WebhooksConfig(Section):
    """Where runs may have their ends posted to: to nobody, unless `allow` names origins.

    `https://*.example.com` stands for every name below example.com. Names that lead to private addresses
    need `private_addresses`; an address that is given in numbers is allowed as it is.
    """

    allow: tuple[Text, ...] = ()
    private_addresses: Flag = False
    timeout_seconds: Seconds = 10
    max_attempts: PositiveInt = 5

    @field_validator("allow", mode="after")
    @classmethod
    def _are_origins(cls, allow: tuple[str, ...]) -> tuple[str, ...]:
        origins = tuple(origin.lower().rstrip("/") for origin in allow)
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise refusal("origins such as https://hooks.example.com or https://*.example.com, no paths")
        return origins
