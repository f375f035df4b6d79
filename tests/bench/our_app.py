"""The Gateway with the configuration of the benchmark, for uvicorn."""

from __future__ import annotations

import json
import os
from pathlib import Path

from deerflow.config import config_from
from deerflow.gateway.app import create_app

_model = {
    "name": "scripted",
    "use": "deerflow.models:ScriptedChatModel",
    "rules": json.loads(os.environ["BENCH_RULES"]),
}
_config = config_from({"models": [_model], "title": {"enabled": False}})
app = create_app(_config.based_in(Path(os.environ["BENCH_HOME"])))
