"""Spans of calls of chat models: what is said of the request, and of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from deerflow.tracing import names
from deerflow.tracing.contents import instructions_json, messages_json
from deerflow.tracing.interface import Attributes, Span, SpanStart

# Where LangChain's name of a provider is not OpenTelemetry's.
_PROVIDERS: Final = {
    "amazon_bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "ibm": "ibm.watsonx.ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}


def chat_start(model: Any, record_name: str, further: Attributes) -> SpanStart:
    """The beginning of a call of `model`, which the configuration calls `record_name`."""
    known = _known_of(model)
    requested = str(known.get("ls_model_name") or record_name)
    provider = str(known.get("ls_provider") or "")
    attributes = {
        names.OPERATION: "chat",
        names.PROVIDER: _PROVIDERS.get(provider, provider) or None,
        names.REQUEST_MODEL: requested,
        names.REQUEST_TEMPERATURE: known.get("ls_temperature"),
        names.REQUEST_MAX_TOKENS: known.get("ls_max_tokens"),
        names.MODEL: record_name,
    }
    return SpanStart(f"chat {requested}", {**attributes, **further}, leaves_process=True)


def note_question(span: Span, messages: Sequence[BaseMessage]) -> None:
    """Record what the model is asked."""
    if span.is_recorded:
        span.set(
            {
                names.SYSTEM_INSTRUCTIONS: instructions_json(messages),
                names.INPUT_MESSAGES: messages_json(messages),
            }
        )


def note_answer(span: Span, answers: Iterable[Any], *, with_content: bool) -> None:
    """Record what the answer took, and with `with_content` what it says."""
    answer = next((message for message in answers if isinstance(message, AIMessage)), None)
    if answer is None or not span.is_recorded:
        return
    told = answer.response_metadata
    reason = told.get("finish_reason") or told.get("stop_reason")
    attributes: dict[str, Any] = {
        names.RESPONSE_ID: _text(told.get("id")),
        names.RESPONSE_MODEL: _text(told.get("model_name") or told.get("model")),
        names.FINISH_REASONS: None if reason is None else (str(reason),),
        **usage_attributes(answer.usage_metadata or {}),
    }
    if with_content:
        attributes[names.OUTPUT_MESSAGES] = messages_json([answer])
    span.set(attributes)


def usage_attributes(usage: Mapping[str, Any]) -> Attributes:
    """Tokens, from LangChain's `usage_metadata` or from the sums of a run."""
    given, made = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    return {
        names.INPUT_TOKENS: usage.get("input_tokens"),
        names.OUTPUT_TOKENS: usage.get("output_tokens"),
        names.CACHE_READ_TOKENS: given.get("cache_read"),
        names.CACHE_CREATION_TOKENS: given.get("cache_creation"),
        names.REASONING_TOKENS: made.get("reasoning"),
    }


def _known_of(model: Any) -> Mapping[str, Any]:
    """What the model tells LangChain's own tracing of itself; nothing where it tells nothing."""
    tell = getattr(model, "_get_ls_params", None)
    try:
        return dict(tell()) if callable(tell) else {}
    except Exception:  # noqa: BLE001 - a model's own code, and nothing that a call may fail of
        return {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
