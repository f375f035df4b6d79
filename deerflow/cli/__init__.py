"""The `deerflow` command."""

from deerflow.cli.main import main

__all__ = ["main"]
