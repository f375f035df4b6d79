"""A thread's history grows with its turns, not with their square."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

from langchain_core.messages import HumanMessage
from support.hosts import finished, scripted_host

TURNS = 30
TALKING = {"when": "", "turns": [{"text": "y" * 2000}]}
SUMMARIES = {"trigger": [{"type": "messages", "value": 12}], "keep": {"type": "messages", "value": 4}}


def _history_bytes(file: Path) -> int:
    with sqlite3.connect(file) as connection:
        (size,) = connection.execute("SELECT sum(length(checkpoint)) FROM checkpoints").fetchone()
    connection.close()
    return int(size)


async def test_later_turns_add_no_more_history_than_earlier_ones(tmp_path: Path) -> None:
    thread_id, sizes = str(uuid4()), [0]
    sections = {"database": {"backend": "sqlite"}, "summarization": SUMMARIES, "title": {"enabled": False}}
    async with scripted_host(tmp_path, [TALKING], **sections) as host:
        for _ in range(4):
            for number in range(TURNS // 2):
                run = await finished(host, f"{number} " + "x" * 2000, thread_id=thread_id)
                assert run.ending is not None and run.ending.status == "success"
            sizes.append(_history_bytes(tmp_path / "deerflow.db"))
        thread = await host.database.stores.threads.get(thread_id)
        assert thread is not None
        history = await host.states.history(thread, limit=1000)
    added = [after - before for before, after in pairwise(sizes)]
    assert max(added[1:]) < 1.3 * min(added[1:]), added
    # Old states can still be read, the very first turn included.
    first = [message for state in history[-3:] for message in state.values.get("messages", ())]
    assert isinstance(first[0], HumanMessage) and first[0].text.startswith("0 ")
