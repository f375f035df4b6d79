"""The file tools as LangChain tools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel

from deerflow.agents.file_tools.arguments import (
    EditArguments,
    GlobArguments,
    GrepArguments,
    ListArguments,
    ReadArguments,
    WriteArguments,
    explained,
)
from deerflow.agents.file_tools.listing import list_folder
from deerflow.agents.file_tools.reading import read_file
from deerflow.agents.file_tools.searching import find_files, search_lines
from deerflow.agents.file_tools.writing import edit_file, write_file
from deerflow.agents.text import valid_text
from deerflow.agents.workspace import Workspace, WorkspaceError
from deerflow.agents.workspace.allowance import AbandonedError, Allowance
from deerflow.agents.workspace.worker import in_worker

logger = logging.getLogger(__name__)

WorkspaceFinder = Callable[[Any], Workspace]
"""Returns the workspace of the run that a `ToolRuntime` belongs to."""


@dataclass(frozen=True)
class FileTool:
    """A tool before it knows whose files it works on."""

    name: str
    description: str
    arguments: type[BaseModel]
    operate: Callable[[Workspace, Any, Allowance], str]


FILE_TOOLS = (
    FileTool("ls", "List a folder of the workspace.", ListArguments, list_folder),
    FileTool(
        "read_file",
        "Read a text file of the workspace. A long file comes in parts; each ends by saying how to read on.",
        ReadArguments,
        read_file,
    ),
    FileTool(
        "write_file", "Create or replace a text file of the workspace, whole.", WriteArguments, write_file
    ),
    FileTool("edit_file", "Replace text in a file of the workspace.", EditArguments, edit_file),
    FileTool("glob", "Find files of the workspace by a pattern of their paths.", GlobArguments, find_files),
    FileTool(
        "grep",
        "Find lines in files of the workspace. Each comes as `path:number: text`; numbers start at 1.",
        GrepArguments,
        search_lines,
    ),
)


def _prototype(tool: FileTool) -> StructuredTool:
    prototype = StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments,
        handle_tool_error=True,
        handle_validation_error=partial(explained, tool.name),
    )
    # Built here and shared by the copies: the schema is most of what a tool costs to make.
    _ = prototype.tool_call_schema
    return prototype


_PROTOTYPES = tuple((tool, _prototype(tool)) for tool in FILE_TOOLS)


def build_file_tools(workspace_of: WorkspaceFinder) -> list[BaseTool]:
    """Return the file tools, each working on what `workspace_of` names for its call.

    A failure is a tool result with status `error` that says what to do next; it ends no run.
    """
    return [_working(prototype, tool, workspace_of) for tool, prototype in _PROTOTYPES]


def _working(prototype: StructuredTool, tool: FileTool, workspace_of: WorkspaceFinder) -> BaseTool:
    def operate(runtime: ToolRuntime, arguments: dict[str, Any], allowance: Allowance) -> str:
        with _told_to_the_model(tool.name):
            given = tool.arguments.model_construct(**arguments)
            return valid_text(tool.operate(workspace_of(runtime), given, allowance))

    def run(runtime: ToolRuntime, **arguments: Any) -> str:
        return operate(runtime, arguments, Allowance())

    async def run_in_worker(runtime: ToolRuntime, **arguments: Any) -> str:
        return await in_worker(partial(operate, runtime, arguments))

    return prototype.model_copy(update={"func": run, "coroutine": run_in_worker})


@contextmanager
def _told_to_the_model(tool_name: str) -> Iterator[None]:
    """Turn every failure into the one kind that LangChain makes a tool result of."""
    try:
        yield
    except AbandonedError:
        raise
    except WorkspaceError as error:
        raise ToolException(valid_text(str(error))) from error
    except Exception as error:
        logger.warning("%s failed", tool_name, exc_info=True)
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolException(valid_text(f"{tool_name} failed: {type(error).__name__}: {said}")) from error
