"""What operators read from /metrics."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from deerflow_extension_api import ExtensionRegistry, TaskLifecycleContributor
from prometheus_client.parser import text_string_to_metric_families
from support.extensions import Seen, installed, recording
from support.gateways import FAILING, SLOW, UNKNOWN_ID, gateway, said, serving
from support.hosts import DELEGATE_TWICE, scripted_config
from support.users import users_gateway

from deerflow.gateway.app import create_app


async def _numbers(client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""
    response = await client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return {
        (
            sample.name.removeprefix("deerflow_"),
            *(v for k, v in sorted(sample.labels.items()) if k != "le"),
        ): (sample.value)
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


async def test_runs_are_counted_by_how_they_ended(tmp_path: Path) -> None:
    async with gateway(tmp_path, [FAILING, SLOW]) as client:
        assert (await _numbers(client))["runs_active", "running"] == 0
        thread_id = await client.thread()
        await client.say(thread_id, "hello", stream_mode=["values", "messages-tuple"])
        await client.say(thread_id, "fail")
        running, waiting = await client.start(thread_id, "slow"), await client.start(thread_id, "slow")
        while client.host.runs.find(running).scope is None:  # type: ignore[union-attr]
            await client.get(f"/threads/{thread_id}")
        numbers = await _numbers(client)
        assert (numbers["runs_active", "running"], numbers["runs_active", "waiting"]) == (1, 1)
        for run_id in (waiting, running):
            await client.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1")
        numbers = await _numbers(client)
        assert numbers["runs_total", "success", ""] == numbers["runs_total", "error", ""] == 1
        assert numbers["runs_total", "interrupted", "cancelled"] == 2
        assert numbers["run_duration_seconds_count", "success"] == 1
        assert numbers["run_duration_seconds_count", "interrupted"] == 1, "one of them had not begun"
        assert (numbers[("run_wait_seconds_count",)], numbers[("run_first_token_seconds_count",)]) == (3, 1)
        assert numbers["run_tokens_total", "input"] > 0
        assert numbers["runs_active", "running"] == numbers["runs_active", "waiting"] == 0


async def test_subagents_are_counted_by_how_they_ended(tmp_path: Path) -> None:
    async with gateway(tmp_path, [DELEGATE_TWICE]) as client:
        await client.say(await client.thread(), "delegate")
        numbers = await _numbers(client)
        assert numbers["subagents_total", "completed"] == 2
        assert (numbers["subagents_active", "running"], numbers["subagents_active", "queued"]) == (0, 0)


async def test_hooks_of_extensions_are_timed_and_their_failures_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(TaskLifecycleContributor):
        async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
            raise RuntimeError("no")

    def install(registry: ExtensionRegistry, config: Any) -> None:
        registry.task_lifecycle(Broken())

    module: Any = ModuleType("acme")
    module.install = install
    monkeypatch.setitem(sys.modules, "acme", module)
    async with gateway(tmp_path, plugins=[{"use": "acme:install"}]) as client:
        await client.say(await client.thread(), "hello")
        numbers = await _numbers(client)
        for hook, failures in (("on_task_start", 1), ("on_task_stop", 0)):
            assert numbers["extension_hook_seconds_count", "acme:install", hook] == 1
            assert numbers.get(("extension_hook_failures_total", "acme:install", hook), 0) == failures


async def test_hooks_of_middlewares_are_among_them(tmp_path: Path) -> None:
    async with gateway(tmp_path, [DELEGATE_TWICE]) as client:
        with installed(recording(Seen())):
            await client.say(await client.thread(), "delegate")
        numbers = await _numbers(client)
    counted = {key[2]: count for key, count in numbers.items() if key[0] == "extension_hook_seconds_count"}
    assert (counted["wrap_model_call"], counted["wrap_tool_call"]) == (4, 2)


async def test_each_application_counts_its_own(tmp_path: Path) -> None:
    config = scripted_config(tmp_path)
    async with serving(create_app(config)) as first, serving(create_app(config)) as second:
        await first.say(await first.thread(), "hello")
        assert (await _numbers(first))["runs_total", "success", ""] == 1
        assert ("runs_total", "success", "") not in await _numbers(second)


async def test_numbers_are_the_administrators(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as users:
        alice, root = await users.user("alice"), await users.admin("root")
        statuses = [(await client.get("/metrics")).status_code for client in (users.client(), alice, root)]
        assert statuses == [401, 403, 200]


async def test_numbers_can_be_read_before_the_start_and_show_a_shutdown(tmp_path: Path) -> None:
    app = create_app(scripted_config(tmp_path))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        assert (await _numbers(client))[("accepting_runs",)] == 0
        async with app.router.lifespan_context(app):
            assert (await _numbers(client))[("accepting_runs",)] == 1
            app.state.host.runs.stop_accepting()
            assert (await _numbers(client))[("accepting_runs",)] == 0
            refused = await client.post("/runs", json=said("hello"))
            assert refused.status_code == 503
        assert (await client.get(f"/threads/{UNKNOWN_ID}")).status_code == 503
