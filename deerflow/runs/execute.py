"""The story of one run, from top to bottom. Only this file decides how a run ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, cast

from deerflow_extension_api import TaskInfo

from deerflow.agents.assembly import Assembly
from deerflow.agents.run_scope import Delegations, RunScope, open_task_store, runtime_context
from deerflow.agents.workspace import Workspace
from deerflow.cancellation import abandon
from deerflow.errors import DeerFlowError, NotFoundError
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.lifecycle import TaskHooks
from deerflow.extensions.policy import lead_policy
from deerflow.runs.active import ActiveRun
from deerflow.runs.ending import Ending, completed, ending_of
from deerflow.runs.events.frames import FrameWriter
from deerflow.runs.events.graph_events import GraphEvents
from deerflow.runs.finish import finish
from deerflow.runs.goal import Pursuit
from deerflow.runs.graph_input import GraphInput, first_input, prompted
from deerflow.runs.hosts.recovery import check_can_go_on, input_to_go_on
from deerflow.runs.parts import RunParts
from deerflow.runs.record import RunStatus, StopRequestedError, ThreadBusyError
from deerflow.runs.resuming import check_somebody_waits
from deerflow.runs.subagent_edges import tell_subagent_edges
from deerflow.runs.title import begin_naming

logger = logging.getLogger(__name__)

# How often a run asks whether its thread, which is busy on another host, is free.
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 0.5


async def supervise(run: ActiveRun, turn: asyncio.Event, parts: RunParts) -> None:
    """Let the story run, stop it where that is asked, and finish it: this much always happens, and once."""
    story = run.begin(execute(run, turn, parts))
    either: set[asyncio.Future[Any]] = {story, run.given_up}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    run.given_up.cancel()
    if not story.done():
        abandon(story)
    tell_subagent_edges(run)
    run.ending = ending_of(story, run.stop_reason)
    if run.ending.error is not None:
        _log_failure(run, run.ending.error, story)
    await finish(run, run.ending, parts)


def _log_failure(run: ActiveRun, error: tuple[str, str], story: asyncio.Task[Ending]) -> None:
    """One line; with the traceback where the error is none that the host raised on purpose."""
    cause = None if story.cancelled() else story.exception()
    logger.error(
        "run %s on thread %s failed: %s: %s",
        *(run.run_id, run.thread_id, *error),
        exc_info=None if isinstance(cause, DeerFlowError) else cause,
    )


async def execute(run: ActiveRun, turn: asyncio.Event, parts: RunParts) -> Ending:
    """Wait for the thread to be free, bind a generation of extensions, and run the lead graph.

    Where the thread has a goal, the graph may go on a few times until that is reached.
    """
    attempt = await _begin(run, turn, parts)
    await check_can_go_on(run, parts)
    run.log.publish("metadata", {"run_id": run.run_id, "attempt": attempt})
    snapshot = parts.resolve_snapshot()
    memory = await parts.memory.known(run.user_id) if parts.memory is not None else ""
    scope = run.scope = open_scope(run, snapshot, parts, memory=memory)
    context = runtime_context(_known_options(run), scope)
    run.hooks = TaskHooks(snapshot, scope.task_store, scope.task_info)
    await run.hooks.start()
    assembly = await parts.assembler.lead(snapshot, run.options)
    run.naming = begin_naming(
        run.request, run.thread, scope, parts.config.title, parts.assembler.system_models
    )
    pursuit = Pursuit(run, assembly.model_name, parts)
    given = await _input_of(run, assembly, parts)
    if given is None:
        return completed((), paused=True, stop_reason=None)
    ending = await stream_graph(run, assembly, context, given)
    while (prompt := await pursuit.next_prompt(ending)) is not None:
        given = await prompted(run, assembly, prompt, parts.config)
        ending = await stream_graph(run, assembly, context, given)
    return ending


async def _begin(run: ActiveRun, turn: asyncio.Event, parts: RunParts) -> int:
    """Become the one run of the thread that is under way, here and on other hosts; how often it has begun."""
    waited = not turn.is_set() or run.request.after_seconds > 0 or run.taken_up
    await turn.wait()
    record = run.record if run.record.status is RunStatus.RUNNING else None
    pause_seconds = FIRST_PAUSE_SECONDS
    while record is None:
        try:
            record = await parts.stores.runs.move(run.run_id, RunStatus.RUNNING, host_id=parts.host_id)
        except ThreadBusyError:  # on another host: nobody here will say when that one ends
            waited = True
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        except StopRequestedError as error:
            run.stop(error.reason)
            raise
        except NotFoundError:  # it went with its thread while it waited
            run.stop("deleted")
            raise
    if waited:  # other runs may have changed the thread meanwhile
        run.thread = await parts.stores.threads.get(run.thread_id) or run.thread
    return record.attempt


async def _input_of(run: ActiveRun, assembly: Assembly, parts: RunParts) -> GraphInput | None:
    if run.was_under_way:
        return await input_to_go_on(run, assembly, parts)
    given = first_input(run, parts.config)
    await check_somebody_waits(run.request, assembly.graph, given.config)
    if run.request.input is None and parts.checkpointer is not None:
        run.before = await parts.checkpointer.aget_tuple(given.config)
    return given


def open_scope(run: ActiveRun, snapshot: LoadedExtensions, parts: RunParts, *, memory: str = "") -> RunScope:
    """The scope of a lead run on `snapshot`."""
    options = run.options
    info = TaskInfo(
        task_id=run.run_id,
        run_id=run.run_id,
        thread_id=run.thread_id,
        kind="lead",
        agent_name=options.agent_name,
        resumed=run.request.resumed or run.was_under_way,
    )
    policy = lead_policy(parts.config, max_total_subagents=options.max_total_subagents)
    return RunScope(
        snapshot=snapshot,
        task_info=info,
        task_store=open_task_store(snapshot, run.run_id),
        policy=policy,
        options=options,
        workspace=Workspace(parts.config.workspace_path(run.thread_id), mounts=parts.mounts),
        delegations=Delegations(policy.max_subagents_per_run or 0),
        user_id=run.request.user_id,
        memory=memory,
    )


async def stream_graph(
    run: ActiveRun, assembly: Assembly, context: Mapping[str, Any], graph_input: GraphInput
) -> Ending:
    """Publish what the graph streams until it ends or waits for a person."""
    request = run.request
    frames = FrameWriter(run.log, run.recorder, request.stream_modes, subgraphs=request.stream_subgraphs)
    config = graph_input.config
    if "events" in request.stream_modes:
        callback = GraphEvents(run.run_id, assembly.graph.output_channels, frames.write)
        config = {**config, "callbacks": [callback]}
    parts = assembly.graph.astream(
        graph_input.value,
        config,
        context=context,
        stream_mode=frames.graph_modes,
        # As LangGraph's server does: what middlewares keep for themselves is nobody's to read.
        output_keys=assembly.graph.output_channels,
        subgraphs=True,
        interrupt_before=request.interrupt_before,
        interrupt_after=request.interrupt_after,
        durability=request.durability or "async",
    )
    # With several modes and subgraphs each part is three; langgraph's types know of one form only.
    async for namespace, mode, chunk in cast(AsyncIterator[tuple[tuple[str, ...], str, Any]], parts):
        frames.write(namespace, mode, chunk)
        run.values = frames.values
    stop_reason = run.scope.usage.stop_reason if run.scope is not None else None
    return completed(frames.interrupts, paused=frames.paused, stop_reason=stop_reason)


def _known_options(run: ActiveRun) -> dict[str, Any]:
    """The caller's context as far as the host knows its keys."""
    options = vars(run.options)
    return {key: options[key] for key in run.request.context if key in options}
