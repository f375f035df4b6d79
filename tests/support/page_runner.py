"""Run the Python of several pages one after another: jobs as JSON on standard input, outputs as JSON."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from contextlib import ExitStack, redirect_stdout
from typing import Any

from deerflow.extensions import reset_loaded_extensions
from deerflow.gateway.app import create_app
from support.server_thread import server_thread

# Where pages say that the Gateway is; they get one on the configuration of their folder.
GATEWAY = "http://127.0.0.1:8001"


def run(page: str, folder: str, scripts: list[str]) -> dict[str, Any]:
    """What each script printed, and the traceback that ended the page, if one did."""
    os.chdir(folder)
    sys.path.insert(0, folder)
    names: dict[str, Any] = {"__name__": "__page__"}
    sys.modules["__page__"] = type(sys)("__page__")  # dataclasses look their module up
    outputs: list[str] = []
    try:
        with ExitStack() as stack:
            if any(GATEWAY in script for script in scripts):
                url = stack.enter_context(server_thread(create_app())).url
                scripts = [script.replace(GATEWAY, url) for script in scripts]
            for number, script in enumerate(scripts):
                printed = io.StringIO()
                with redirect_stdout(printed):
                    exec(compile(script, f"{page}, block {number}", "exec"), names)
                outputs.append(printed.getvalue())
    except Exception:
        return {"outputs": outputs, "error": traceback.format_exc()}
    finally:
        sys.path.remove(folder)
        reset_loaded_extensions()
    return {"outputs": outputs, "error": ""}


if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    print(json.dumps({job["page"]: run(**job) for job in jobs}))
