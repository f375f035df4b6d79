"""What a model may pass to the file tools; built once, when this is imported."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import ErrorDetails

from deerflow.agents.text import quoted

MAX_WRITE_CHARACTERS = 10_000_000


def _whole_text(value: object) -> object:
    """Join halves of characters that arrived apart; refuse a half without the other."""
    if not isinstance(value, str) or value.isascii():
        return value
    try:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ValueError("holds half a character (a lone surrogate): send the whole character") from None


Text = Annotated[str, BeforeValidator(_whole_text)]


class ListArguments(BaseModel):
    """Arguments of `ls`."""

    path: Text = Field(default=".", description="the folder")


class ReadArguments(BaseModel):
    """Arguments of `read_file`."""

    path: Text = Field(description="the file")
    offset: int = Field(default=0, ge=0, description="how many lines to skip")
    limit: int = Field(default=2000, ge=1, description="how many lines to return at most")
    column: int = Field(default=0, ge=0, description="how many characters of the first line to skip")


class WriteArguments(BaseModel):
    """Arguments of `write_file`."""

    path: Text = Field(description="the file; missing folders are made")
    content: Text = Field(description="the whole text of the file", max_length=MAX_WRITE_CHARACTERS)


class EditArguments(BaseModel):
    """Arguments of `edit_file`."""

    path: Text = Field(description="the file")
    old_string: Text = Field(
        description="the text to replace, exactly as it stands in the file", min_length=1
    )
    new_string: Text = Field(description="what to put in its place", max_length=MAX_WRITE_CHARACTERS)
    replace_all: bool = Field(default=False, description="replace it wherever it stands, not just once")


class GlobArguments(BaseModel):
    """Arguments of `glob`."""

    pattern: Text = Field(description="such as '*.md', '**/*.py' or 'src/**/*.{ts,tsx}'", min_length=1)
    path: Text = Field(default=".", description="the folder that the pattern starts from")


class GrepArguments(BaseModel):
    """Arguments of `grep`."""

    pattern: Text = Field(
        description="a regular expression in RE2 syntax, matched line by line", min_length=1
    )
    path: Text = Field(default=".", description="a file, or a folder with all folders below it")
    glob: Text | None = Field(default=None, description="search only files that match, such as '*.py'")
    ignore_case: bool = Field(default=False, description="let upper and lower case match each other")
    literal: bool = Field(default=False, description="take the pattern as plain text")


def explained(tool_name: str, error: Any) -> str:
    """Return one line per wrong argument of `tool_name`, without repeating what may be long."""
    problems: list[ErrorDetails] = error.errors(include_url=False, include_context=False)
    lines = [f"- {_place(problem)}: {problem['msg']}{_given(problem)}" for problem in problems]
    return "\n".join([f"{tool_name} did nothing, its arguments are wrong:", *lines])


def _place(problem: ErrorDetails) -> str:
    return ".".join(map(str, problem["loc"])) or "arguments"


def _given(problem: ErrorDetails) -> str:
    if problem["type"] == "missing":  # its input is all arguments, the host's own among them
        return ""
    return f" (got {quoted(str(problem['input']))})"
