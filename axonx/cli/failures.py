"""How a failure is said in one line, and which exit status it has."""

from __future__ import annotations

import click

# Wrong use: what the caller can put right.
_WRONG_USE = (ValueError, TypeError, KeyError, FileNotFoundError, click.UsageError)


def exit_status(error: BaseException) -> int:
    """2 for wrong use and wrong configuration, 1 for everything else."""
    return 2 if isinstance(error, _WRONG_USE) else 1


def one_line(error: BaseException) -> str:
    """`<Type>: <text>`, with the errors of a group and what was added to an error."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {' '.join(_text(error).split())}{notes}"


def _text(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: {'; '.join(map(one_line, error.exceptions))}"
    if isinstance(error, click.ClickException):
        return error.format_message()
    details = getattr(error, "errors", None)
    if callable(details):  # pydantic's ValidationError, whose own text has many lines
        problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in details())
        return "; ".join(problems)
    return str(error)
