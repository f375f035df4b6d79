"""What `import axonx` costs and offers, measured in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import axonx

HEAVY = [
    "fastapi",
    "starlette",
    "uvicorn",
    "httpx",
    "mcp",
    "pandas",
    "numpy",
    "langchain",
    "langgraph",
    "deerflow",
    "dask",
    "distributed",
]
PROBE = """
{statement}
import json, sys
loaded = sorted({{name.partition(".")[0] for name in sys.modules}})
import psutil
print(json.dumps([psutil.Process().memory_info().rss, loaded]))
"""


@pytest.mark.parametrize("statement", ["import axonx", "from axonx import Application"])
def test_importing_is_light(statement: str) -> None:
    code = PROBE.format(statement=statement)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    resident_bytes, loaded = json.loads(run.stdout)
    assert resident_bytes <= 60 * 1024 * 1024
    assert not set(loaded) & set(HEAVY)


def test_import_alone_loads_nothing_but_the_package() -> None:
    code = "import sys, axonx; print([name for name in sys.modules if name.startswith('axonx')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['axonx']"


def test_every_public_name_can_be_imported() -> None:
    for name in axonx.__all__:
        assert getattr(axonx, name) is not None
        assert name in dir(axonx)
    assert axonx.__all__ == sorted(axonx.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'axonx' has no attribute 'Nope'"):
        _ = axonx.Nope


@pytest.mark.parametrize(
    "path",
    [
        *("components/base.py", "components/registry.py", "core/graph.py", "core/composition.py"),
        *("steps/base.py", "components/job/pipeline.py", "components/job/context.py"),
    ],
)
def test_the_files_that_the_documentation_refers_to_are_there(path: str) -> None:
    assert (Path(axonx.__file__).parent / path).is_file()
