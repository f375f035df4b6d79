"""Chat models that answer asynchronously only, made to answer synchronous callers too."""

from __future__ import annotations

from functools import wraps
from typing import Any

from langchain_core.language_models import BaseChatModel

from deerflow.loop_thread import side_loop


def both_sided_model(model: BaseChatModel) -> BaseChatModel:
    """The model itself; where its synchronous side says `NotImplementedError`, its other one answers."""
    if type(model)._agenerate is BaseChatModel._agenerate or "_generate" in vars(model):
        return model
    generate = model._generate

    @wraps(generate)
    def answer(messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        try:
            return generate(messages, stop, run_manager, **options)
        except NotImplementedError:
            return side_loop().call(model._agenerate(messages, stop, None, **options))

    # Found before the method of the class, which cannot be told apart from one that answers.
    object.__setattr__(model, "_generate", answer)
    return model
