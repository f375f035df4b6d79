"""Which of the configured lengths of conversation can be measured for a model."""

from __future__ import annotations

import logging

from langchain_core.language_models import BaseChatModel

from deerflow.config.schema import ContextSize, SummarizationConfig

logger = logging.getLogger(__name__)


def usable_sizes(
    config: SummarizationConfig, model: BaseChatModel, model_name: str
) -> tuple[tuple[ContextSize, ...], ContextSize]:
    """`(triggers, keep)`, with a warning without those that are fractions of an unknown window."""
    sizes = (*config.trigger, config.keep)
    if any(size.type == "fraction" for size in sizes) and not _window(model):
        logger.warning(
            "summarization: the context window of model %r is unknown, and fractions of it do not count; "
            "give the model max_input_tokens, or name tokens or messages",
            model_name,
        )
        keep = SummarizationConfig().keep if config.keep.type == "fraction" else config.keep
        return tuple(size for size in config.trigger if size.type != "fraction"), keep
    return config.trigger, config.keep


def _window(model: BaseChatModel) -> int | None:
    window = (model.profile or {}).get("max_input_tokens")
    return window if isinstance(window, int) else None
