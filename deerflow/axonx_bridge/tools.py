"""Jobs and Tasks as LangChain tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from axonx.errors import NotRunningError
from deerflow.agents.run_scope import scope_from_runtime
from deerflow.axonx_bridge.calling import CallSite, OfferedCall, Outcome
from deerflow.axonx_bridge.crossing import WorkLostError
from deerflow.axonx_bridge.depth import job_depth
from deerflow.axonx_bridge.offers import Offer
from deerflow.axonx_bridge.options import BridgeOptions
from deerflow.axonx_bridge.running import BridgedApplication

# Not a name that a Job's parameter is likely to have; LangGraph overwrites what a model puts there.
RUNTIME: Final = "deerflow_tool_runtime"


class AxonxTool(StructuredTool):
    """A tool whose arguments are checked by AxonX, against the Job's own schema.

    All arguments reach the function as one mapping, so that a parameter may be called `config` or `runtime`.
    """

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[str, ...], dict[str, Any]]:
        parsed = self._parse_input(tool_input, tool_call_id)
        arguments = dict(parsed) if isinstance(parsed, dict) else {}
        runtime = arguments.pop(RUNTIME, None)
        given = runtime if isinstance(runtime, ToolRuntime) else None
        return (), {"arguments": arguments, RUNTIME: given, "call_id": tool_call_id}


def build_tools(
    offers: Iterable[Offer], bridged: BridgedApplication, options: BridgeOptions
) -> list[BaseTool]:
    """One tool for each offer, good for any number of agents. A failure is a result with status `error`."""
    return [_build_tool(offer, bridged, options) for offer in offers]


def _build_tool(offer: Offer, bridged: BridgedApplication, options: BridgeOptions) -> BaseTool:
    def prepared(
        arguments: dict[str, Any], runtime: ToolRuntime[Any, Any] | None, call_id: str | None
    ) -> OfferedCall:
        source = bridged.application.workspace_path
        return OfferedCall(offer, arguments, _site(runtime, call_id), options, source)

    def run(
        arguments: dict[str, Any], deerflow_tool_runtime: ToolRuntime[Any, Any], call_id: str | None
    ) -> tuple[str, Any]:
        call = prepared(arguments, deerflow_tool_runtime, call_id)
        try:
            return _answer(bridged.run_blocking(call.run))
        except (NotRunningError, WorkLostError) as error:
            raise ToolException(f"{offer.label} failed: {error}") from error

    async def arun(
        arguments: dict[str, Any], deerflow_tool_runtime: ToolRuntime[Any, Any], call_id: str | None
    ) -> tuple[str, Any]:
        call = prepared(arguments, deerflow_tool_runtime, call_id)
        try:
            return _answer(await bridged.run(call.run))
        except (NotRunningError, WorkLostError) as error:
            raise ToolException(f"{offer.label} failed: {error}") from error

    return AxonxTool(
        name=offer.tool_name,
        description=offer.description,
        args_schema=offer.parameters,
        func=run,
        coroutine=arun,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


def _site(runtime: ToolRuntime[Any, Any] | None, call_id: str | None) -> CallSite:
    scope = scope_from_runtime(runtime)
    return CallSite(
        tool_call_id=call_id,
        agent_depth=job_depth(scope),
        workspace=None if scope is None else scope.workspace,
        emit=None if runtime is None else runtime.stream_writer,
    )


def _answer(outcome: Outcome) -> tuple[str, Any]:
    if not outcome.success:
        raise ToolException(outcome.text)
    return outcome.text, outcome.details
