"""Fields of LangGraph's API that this server cannot honour: they are refused instead of ignored."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def _refuse(value: Any) -> None:
    if value is not None:
        raise ValueError("this server does not offer it; leave it out")


NotOffered = Annotated[None, BeforeValidator(_refuse)]
