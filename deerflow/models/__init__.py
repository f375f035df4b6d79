"""Chat models: those of the configuration, and the scripted one that needs no network."""

from deerflow.models.build import build_chat_model, warn_of_missing_models
from deerflow.models.scripted import ScriptedChatModel, ScriptedModelError
from deerflow.models.transient import is_transient

__all__ = [
    "ScriptedChatModel",
    "ScriptedModelError",
    "build_chat_model",
    "is_transient",
    "warn_of_missing_models",
]
