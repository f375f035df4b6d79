"""A scripted model that says some words only once a test lets it, and a Gateway in a process with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from langchain_core.outputs import ChatGenerationChunk, ChatResult

from deerflow.models import ScriptedChatModel
from support.gateway_process import GatewayProcess, gateway_process


class GatedChatModel(ScriptedChatModel):
    """Waits before each of `held_words`, in an answer or an error, until there is a file `gate`."""

    gate: Path
    held_words: frozenset[str]

    async def _agenerate(self, *arguments: Any, **named: Any) -> ChatResult:
        try:
            result = await super()._agenerate(*arguments, **named)
        except Exception as error:
            await self._pass(str(error))
            raise
        await self._pass(result.generations[0].text)
        return result

    async def _astream(self, *arguments: Any, **named: Any) -> AsyncIterator[ChatGenerationChunk]:
        try:
            async for chunk in super()._astream(*arguments, **named):
                await self._pass(chunk.text)
                yield chunk
        except Exception as error:
            await self._pass(str(error))
            raise

    async def _pass(self, text: str) -> None:
        while self.held_words.intersection(text.split()) and not self.gate.exists():
            await asyncio.sleep(0.02)


def gate_of(folder: Path) -> Path:
    """The file that lets the model of the Gateway in `folder` say everything."""
    return folder / "gate"


def gated_gateway(
    folder: Path,
    rules: Sequence[dict[str, Any]],
    held_words: Sequence[str],
    *,
    port: int | None = None,
    **sections: Any,
) -> AbstractContextManager[GatewayProcess]:
    """A Gateway in `folder` whose model streams a word at a time, and is asked once for each answer."""
    model = {
        "name": "scripted",
        "use": f"{__name__}:GatedChatModel",
        "rules": list(rules),
        "token_delay_seconds": 0.01,
        "held_words": list(held_words),
        "gate": str(gate_of(folder)),
    }
    usual = {"models": [model], "model_retry": {"max_retries": 0}, "shutdown": {"drain_seconds": 0.1}}
    tests = {"PYTHONPATH": str(Path(__file__).parents[1])}
    return gateway_process(folder, {**usual, **sections}, environment=tests, port=port)
