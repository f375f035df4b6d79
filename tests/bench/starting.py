"""How long imports and starts take beside `import langchain.agents` alone, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from tests.bench.pairs import compare, show

_REFERENCE = "import langchain.agents"
_CLIENT = "import deerflow.client"
_FIRST_CHAT = (
    "from deerflow.client import DeerFlowClient\n"
    "with DeerFlowClient({'database': {'backend': 'memory'}}) as client: client.chat('hello')"
)


def run(rounds: int = 7) -> None:
    """Print the ratios."""
    for name, code in (
        ("import deerflow.client", _CLIENT),
        ("process start to the first answer", _FIRST_CHAT),
    ):
        pair = compare(lambda code=code: _python(code), lambda: _python(_REFERENCE), rounds=rounds, warmup=1)
        show(f"{name} / import langchain.agents", pair, "-")


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)
