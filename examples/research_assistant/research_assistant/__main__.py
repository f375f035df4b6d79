"""Ask the assistant: `python -m research_assistant [QUESTION]`. Works offline."""

from __future__ import annotations

import sys
from importlib.resources import as_file, files
from typing import Any

from deerflow.client import DeerFlowClient

QUESTION = "Which planets are the heaviest?"


def main(question: str) -> None:
    """Print what the Jobs tell while they work, and the answer."""
    with as_file(files("research_assistant") / "config.yaml") as config:
        with DeerFlowClient(config, load_extensions=True) as client:
            answer = ""
            for event in client.stream(question):
                if event.type == "custom":
                    print(_progress(event.data))
                elif event.type == "values":
                    answer = event.data["messages"][-1]["content"]
            print(answer)


def _progress(data: dict[str, Any]) -> str:
    if data["type"] == "axonx_artifact":
        return f"{data['job']}: {data['workspace_path']}"
    return f"{data['job']}: {data['completed']:g} of {data['total']:g} {data['unit']}"


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or QUESTION)
