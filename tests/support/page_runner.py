"""Run the Python of several pages one after another: jobs as JSON on standard input, outputs as JSON."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from contextlib import redirect_stdout
from typing import Any

from deerflow.extensions import reset_loaded_extensions


def run(page: str, folder: str, scripts: list[str]) -> dict[str, Any]:
    """What each script printed, and the traceback that ended the page, if one did."""
    os.chdir(folder)
    sys.path.insert(0, folder)
    names: dict[str, Any] = {"__name__": "__page__"}
    sys.modules["__page__"] = type(sys)("__page__")  # dataclasses look their module up
    outputs = []
    try:
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
