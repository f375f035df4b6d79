"""`deerflow extensions`: write, check, install, switch and watch extensions."""

from deerflow.cli.extensions.group import command

__all__ = ["command"]
