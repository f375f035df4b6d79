"""`deerflow extensions`: write, check, install and switch extensions."""

from deerflow.cli.extensions.group import command

__all__ = ["command"]
