"""Without tracing there is nothing of it: no import, no wrapper, no need of the extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import AgentAssemblyObserver
from support.extensions import installed
from support.hosts import finished, scripted_host
from support.spans import TRACED, Spans

from deerflow.agents.middlewares.traced_calls import TracedCalls
from deerflow.extensions import LoadedExtensions
from deerflow.extensions import outcomes as told
from deerflow.gateway.app import create_app
from deerflow.gateway.incoming_trace import IncomingTrace

# As where the extra is not installed.
_WITHOUT_EXTRA = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from deerflow.client import DeerFlowClient
from deerflow.errors import ConfigError
from deerflow.gateway.app import create_app

rules = [{"when": "", "turns": [{"text": "echo: {prompt}"}]}]
model = {"name": "m", "use": "deerflow.models:ScriptedChatModel", "rules": rules}
config = {"models": [model], "database": {"backend": "memory"}}
with DeerFlowClient(config) as client:
    print(client.chat("hello"))
create_app(config)
print(sorted(name for name in sys.modules if name in ("deerflow.tracing.otel", "deerflow.tracing.provider")))
traced = {**config, "tracing": {"enabled": True}}
for attempt in (lambda: DeerFlowClient(traced).chat("hello"), lambda: create_app(traced)):
    try:
        attempt()
    except ConfigError as error:
        print(error)
"""


def test_the_extra_is_needed_only_where_it_is_asked_for(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_EXTRA], cwd=Path(__file__).parents[2], capture_output=True, text=True,
        timeout=90, check=False, env={"DEER_FLOW_HOME": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    advice = "tracing.enabled: opentelemetry.sdk is not installed; pip install 'deerflow[otel]', or set false"
    assert done.stdout.splitlines() == ["echo: hello", "[]", advice, advice], done.stderr


class _Stacks(AgentAssemblyObserver):
    """The middlewares of each agent that is built."""

    def __init__(self) -> None:
        self.names: list[list[str]] = []

    def on_agent_assembled(self, app_store: Any, descriptor: Any) -> None:
        self.names.append([middleware.name for middleware in descriptor.middlewares])


@pytest.mark.parametrize(("tracing", "wrappers"), [({}, 0), (TRACED, 1)])
async def test_a_run_is_wrapped_only_where_it_is_traced(
    tracing: dict[str, Any], wrappers: int, tmp_path: Path, spans: Spans
) -> None:
    stacks, listeners = _Stacks(), len(told._listeners)
    with installed(LoadedExtensions(agent_assembly_observers=(("spy:install", stacks),))):
        async with scripted_host(tmp_path, tracing=tracing) as host:
            assert (host.assembler.tracing is not None) is bool(wrappers)
            await finished(host, "hello")
            # One listener counts costs; that one is there either way.
            assert len(told._listeners) - listeners == 1 + wrappers
    (names,) = stacks.names
    assert sum(TracedCalls.__name__ in name for name in names) == wrappers
    assert bool(spans.all) is bool(wrappers)


@pytest.mark.parametrize(("tracing", "wrappers"), [({}, 0), (TRACED, 1)])
def test_requests_are_wrapped_only_where_runs_are_traced(tracing: dict[str, Any], wrappers: int) -> None:
    app = create_app({"database": {"backend": "memory"}, "tracing": tracing})
    assert sum(middleware.cls is IncomingTrace for middleware in app.user_middleware) == wrappers
