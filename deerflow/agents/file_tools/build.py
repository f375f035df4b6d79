"""The file tools as LangChain tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel

from deerflow.agents.file_tools.arguments import ListArguments, ReadArguments, WriteArguments, explained
from deerflow.agents.file_tools.listing import list_folder
from deerflow.agents.file_tools.reading import read_file
from deerflow.agents.file_tools.writing import write_file
from deerflow.agents.text import valid_text
from deerflow.agents.workspace import Workspace, WorkspaceError
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.worker import in_worker

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
        "Read a text file of the workspace. A long file comes in parts: each ends by saying how to read on.",
        ReadArguments,
        read_file,
    ),
    FileTool(
        "write_file", "Create or replace a text file of the workspace, whole.", WriteArguments, write_file
    ),
)


def build_file_tools(workspace_of: WorkspaceFinder) -> list[BaseTool]:
    """Return the file tools, each working on what `workspace_of` names for its call.

    A failure is a tool result with status `error` that says what to do next; it ends no run.
    """
    return [_built(tool, workspace_of) for tool in FILE_TOOLS]


def _built(tool: FileTool, workspace_of: WorkspaceFinder) -> BaseTool:
    def operated(workspace: Workspace, arguments: dict[str, Any], allowance: Allowance) -> str:
        try:
            return valid_text(tool.operate(workspace, tool.arguments.model_construct(**arguments), allowance))
        except WorkspaceError as error:
            raise ToolException(valid_text(str(error))) from error
        except OSError as error:
            raise ToolException(f"{tool.name} failed: {error.strerror or type(error).__name__}") from error

    def run(runtime: ToolRuntime, **arguments: Any) -> str:
        return operated(workspace_of(runtime), arguments, Allowance())

    async def run_in_worker(runtime: ToolRuntime, **arguments: Any) -> str:
        return await in_worker(partial(operated, workspace_of(runtime), arguments))

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.arguments,
        func=run,
        coroutine=run_in_worker,
        handle_tool_error=True,
        handle_validation_error=partial(explained, tool.name),
    )
