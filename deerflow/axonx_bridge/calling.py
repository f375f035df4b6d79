"""One call of a Job or Task for an agent: events to the run's stream, files to its workspace, one outcome."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import to_json

from axonx.components.job import ArtifactEvent, JobResponse, ResultEvent
from axonx.components.job.events import StepEvent
from axonx.components.job.fold import NO_RESULT
from axonx.errors import AxonXError
from deerflow.agents.text import valid_text
from deerflow.agents.workspace import Workspace
from deerflow.axonx_bridge.artifacts import ArtifactCopies
from deerflow.axonx_bridge.offers import Offer
from deerflow.axonx_bridge.options import BridgeOptions

logger = logging.getLogger(__name__)

_EVENT_TYPES: Final = {
    "progress": "axonx_progress",
    "log": "axonx_log",
    "artifact": "axonx_artifact",
    "agent_message": "axonx_agent_message",
}
_EVENTS_AT_ONCE: Final = 32

MAX_METADATA_CHARACTERS: Final = 50_000
"""What of a Job's metadata is kept with the conversation, as JSON; larger ones are left out as a whole."""


@dataclass(frozen=True)
class CallSite:
    """Who calls. `emit` puts a custom event into the run's stream; `workspace` is the thread's."""

    tool_call_id: str | None
    agent_depth: int
    workspace: Workspace | None
    emit: Callable[[dict[str, Any]], None] | None = None
    # A stream writer finds its stream through the context it is called in: that of the tool.
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def tell(self, payload: dict[str, Any]) -> None:
        """Send one event; a stream that is gone loses nothing of the work."""
        if self.emit is None:
            return
        try:
            self.context.run(self.emit, payload)
        except Exception:
            logger.debug("%s of a Job was not delivered", payload["type"], exc_info=True)


@dataclass(frozen=True)
class Outcome:
    """`text` is for the model; `details` are for clients: `job`, `metadata`, and `files` by path."""

    text: str
    success: bool
    details: dict[str, Any]


@dataclass
class OfferedCall:
    """One call, on the Application's loop."""

    offer: Offer
    arguments: dict[str, Any]
    site: CallSite
    options: BridgeOptions
    source: Path

    async def run(self) -> Outcome:
        """Call to the end. Whatever goes wrong is an outcome, except the caller's cancellation."""
        copies = ArtifactCopies(
            source=self.source,
            target=self.site.workspace,
            folder=self.options.artifacts_folder,
            max_bytes=self.options.max_artifact_bytes,
        )
        try:
            async with asyncio.timeout(self.options.timeout_seconds) as limit:
                response = await self._response(copies)
        except ValidationError as error:
            response = _failure(_problems(error))
        except TimeoutError as error:
            no_result = f"no result within {self.options.timeout_seconds} s"
            response = _failure(no_result if limit.expired() else str(error) or "TimeoutError")
        except (AxonXError, ValueError, TypeError, OSError) as error:
            response = _failure(str(error) or type(error).__name__)
        return self._outcome(response, copies)

    async def _response(self, copies: ArtifactCopies) -> JobResponse:
        response: JobResponse = JobResponse(success=False, answer=NO_RESULT)
        unyielded = 0
        async with aclosing(self.offer.stream(self.arguments, self.site.agent_depth)) as events:
            async for event in events:
                if isinstance(event, ResultEvent):
                    response = event
                    continue
                await self._pass_on(event, copies)
                unyielded = (unyielded + 1) % _EVENTS_AT_ONCE
                if not unyielded:
                    await asyncio.sleep(0)  # a Job that only emits lets the readers of the run read
        return response

    async def _pass_on(self, event: StepEvent, copies: ArtifactCopies) -> None:
        payload = {
            "type": _EVENT_TYPES[event.kind],
            "job": self.offer.name,
            "tool_call_id": self.site.tool_call_id,
            **event.model_dump(mode="json", exclude_defaults=True),
        }
        if isinstance(event, ArtifactEvent):
            copied = await copies.take(event)
            payload["workspace_path"] = None if copied is None else copied.path
        self.site.tell(payload)

    def _outcome(self, response: JobResponse, copies: ArtifactCopies) -> Outcome:
        answer = _text(response.answer)
        if not response.success:
            answer = f"{self.offer.label} failed: {answer or 'it gave no reason'}"
        elif not answer:
            answer = f"{self.offer.label} is done; it has no answer."
        details = {
            "job": self.offer.name,
            **_metadata(response),
            "files": [copied.path for copied in copies.files.values()],
        }
        text = "\n".join([answer, *([""] if copies.lines() else []), *copies.lines()])
        return Outcome(valid_text(text), response.success, details)


def _failure(answer: str) -> JobResponse:
    return JobResponse(success=False, answer=answer)


def _metadata(response: JobResponse) -> dict[str, Any]:
    metadata = response.model_dump(mode="json")["metadata"]
    characters = len(to_json(metadata))
    if characters > MAX_METADATA_CHARACTERS:
        return {"metadata": {}, "metadata_left_out_characters": characters}
    return {"metadata": metadata}


def _problems(error: ValidationError) -> str:
    """The wrong fields of a Task's input, without the values, which may be long."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'input'}: {each['msg']}" for each in problems)


def _text(answer: Any) -> str:
    """An answer as text: itself, or as JSON. AxonX has checked that JSON can hold it."""
    if answer is None:
        return ""
    return answer if isinstance(answer, str) else to_json(answer, inf_nan_mode="null").decode()
