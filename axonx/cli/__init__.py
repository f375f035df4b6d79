"""The `axonx` command."""

from axonx.cli.main import main

__all__ = ["main"]
