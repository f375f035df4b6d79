"""Distributions with an entry point in `axonx.plugins`, made on the disk as an installer makes them."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

_numbers = itertools.count()

COMPONENT = """
from axonx import BaseComponent

class Fmt(BaseComponent):
    component_type = "formatter"

    def __init__(self, prefix="> ", **kwargs):
        super().__init__(**kwargs)
        self.prefix = prefix
"""

TASK = """
from axonx.task import BaseTask, BaseOutputParams

class Job(BaseTask):
    "Does nothing."

    def build_task_steps(self):
        return ()

    def build_output_params(self):
        return BaseOutputParams()
"""


def install(
    site: Path, name: str, manifest: str | None, *, entry_point: str | None = None, **modules: str
) -> str:
    """Write a distribution into `site` and return its package, whose name no other test uses.

    `{package}` in the manifest stands for it; `modules` are files of the package by module name.
    """
    package = f"{name.replace('-', '_')}_{next(_numbers)}"
    directory = site / package
    directory.mkdir(parents=True)
    for module, content in {"__init__": "", **modules}.items():
        (directory / f"{module}.py").write_text(textwrap.dedent(content))
    if manifest is not None:
        (directory / "plugin.yaml").write_text(textwrap.dedent(manifest).replace("{package}", package))
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[axonx.plugins]\nmain = {entry_point or package}\n")
    return package
