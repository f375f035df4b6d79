"""A process may open hosts one after the other, each on a new loop: none is in the way of the next."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.extensions import Seen, installed, recording
from support.hosts import DELEGATE_TWICE, answer, finished, scripted_config
from support.observers import Observed
from support.stepping import stepping_config

from deerflow.client import DeerFlowClient
from deerflow.errors import ConfigError
from deerflow.extensions import LoadedExtensions
from deerflow.host import HostOptions, open_host

_LIVES = 3


class _Locked:
    """A service with a primitive of its loop, which every hook contends for."""

    def __init__(self) -> None:
        self.lives = 0
        self.most_inside = 0
        self._inside = 0

    async def start(self, deps: Any) -> None:
        self.lives += 1
        self._lock = asyncio.Lock()

    async def stop(self) -> None:
        async with self._lock:
            self._inside = 0

    async def on_task_start(self, *arguments: Any) -> None:
        async with self._lock:
            self._inside += 1
            self.most_inside = max(self.most_inside, self._inside)
            await asyncio.sleep(0)
            self._inside -= 1


def _contending(locked: _Locked, seen: Seen) -> LoadedExtensions:
    own = ("locked:install", locked)
    base = recording(seen, own)  # type: ignore[arg-type]
    return LoadedExtensions(
        task_lifecycle=base.task_lifecycle,
        middleware_contributors=base.middleware_contributors,
        services=(own,),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_hosts_live_one_after_the_other_on_new_loops(tmp_path: Path, backend: str) -> None:
    """Runs contend for slots, lanes, locks and stores in each life."""
    locked, seen = _Locked(), Seen()
    config = scripted_config(
        tmp_path, [DELEGATE_TWICE], database={"backend": backend}, subagents={"max_running": 1}
    )

    async def live(loaded: LoadedExtensions) -> None:
        options = HostOptions(services_of=loaded, owns_notification_loop=True, drain_seconds=0.0)
        async with open_host(config, options) as host:
            thread_id = str(uuid4())
            runs = await asyncio.gather(
                *(finished(host, "delegate") for _ in range(4)),
                *(finished(host, "hello", thread_id=thread_id) for _ in range(3)),
            )
            assert [answer(run)[:7] for run in runs] == ["joined:"] * 4 + ["echo: h"] * 3

    with installed(_contending(locked, seen)) as loaded:
        for _ in range(_LIVES):
            asyncio.run(live(loaded))
    assert (locked.lives, locked.most_inside) == (_LIVES, 1)
    assert len(seen.outcomes) >= _LIVES * 7
    assert not loaded.diagnostics


def test_hosts_live_side_by_side_on_loops_of_their_own(tmp_path: Path) -> None:
    answers: list[str] = []

    def live(number: int) -> None:
        with DeerFlowClient(scripted_config(tmp_path / str(number), [DELEGATE_TWICE])) as client:
            answers.extend(client.chat("delegate") for _ in range(2))

    threads = [threading.Thread(target=live, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [text[:7] for text in answers] == ["joined:"] * 6


def test_a_host_opens_again_once_the_cause_of_its_failure_is_gone(tmp_path: Path) -> None:
    observed = Observed()
    own = (("observer:install", observed),)

    async def live(config: Any) -> str:
        loaded = LoadedExtensions(context_compaction_observers=own)
        with installed(loaded):
            options = HostOptions(services_of=loaded, owns_notification_loop=True, drain_seconds=0.0)
            async with open_host(config, options) as host:
                return answer(await finished(host, uuid4().hex))

    broken = stepping_config(tmp_path, extensions={"middlewares": ["support.hosts:start"]})
    with pytest.raises(ConfigError):
        asyncio.run(live(broken))
    assert asyncio.run(live(stepping_config(tmp_path))).startswith("lead: ")
    assert observed.compactions, "observations are accepted again"
