"""What is there when the Gateway has started is not looked through again while it serves."""

from __future__ import annotations

import gc
from pathlib import Path

from support.gateways import gateway


async def test_only_what_came_after_the_start_is_looked_through_while_it_serves(tmp_path: Path) -> None:
    at_the_beginning = object()
    before = [at_the_beginning]
    async with gateway(tmp_path):
        assert gc.get_freeze_count() > 10_000
        after = [at_the_beginning]
        looked_through = {id(tracked) for tracked in gc.get_objects()}
        assert id(after) in looked_through
        assert id(before) not in looked_through
    assert gc.get_freeze_count() == 0
    assert any(tracked is before for tracked in gc.get_objects())
