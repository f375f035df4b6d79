"""What agents do with the files of their thread: list, read, write, edit, find and search them."""

from deerflow.agents.file_tools.build import WorkspaceFinder, build_file_tools

__all__ = ["WorkspaceFinder", "build_file_tools"]
