"""Items under namespaces are kept on every backend."""

from __future__ import annotations

import asyncio

from langgraph.store.base import GetOp, PutOp

from deerflow.config import AppConfig
from deerflow.persistence import open_store


async def test_items_are_put_found_and_deleted(database_config: AppConfig) -> None:
    async with open_store(database_config) as store:
        await store.aput(("users", "ada"), "k", {"v": 1, "text": "é"})
        await store.aput(("users", "bob"), "k", {"v": 2})
        item = await store.aget(("users", "ada"), "k")
        assert item is not None
        assert item.value == {"v": 1, "text": "é"}
        found = await store.asearch(("users",), filter={"v": 2})
        assert [(one.namespace, one.value) for one in found] == [(("users", "bob"), {"v": 2})]
        assert set(await store.alist_namespaces(prefix=("users",))) == {("users", "ada"), ("users", "bob")}
        await store.adelete(("users", "ada"), "k")
        assert await store.aget(("users", "ada"), "k") is None


async def test_text_that_no_database_holds_is_kept_mended(database_config: AppConfig) -> None:
    async with open_store(database_config) as store:
        await store.aput(("a",), "k", {"v": "a\x00b"})
        item = await store.aget(("a",), "k")
        assert item is not None
        assert item.value["v"] in ("a\x00b", "a\ufffdb")


async def test_items_survive_a_restart(lasting_config: AppConfig) -> None:
    async with open_store(lasting_config) as store:
        await store.aput(("a",), "k", {"v": 1})
    async with open_store(lasting_config) as store:
        item = await store.aget(("a",), "k")
        assert item is not None
        assert item.value == {"v": 1}


async def test_concurrent_hosts_write_and_read_in_one_batch(lasting_config: AppConfig) -> None:
    """A batch that reads before it writes must not fail because another host wrote in between."""
    async with open_store(lasting_config) as first, open_store(lasting_config) as second:
        await first.aput(("a",), "k", {"v": 0})
        batches = [
            store.abatch([GetOp(("a",), "k"), PutOp(("a",), f"k{n}", {"v": n})])
            for n in range(40)
            for store in (first, second)
        ]
        results = await asyncio.gather(*batches)
        assert {result[0].value["v"] for result in results} == {0}  # type: ignore[union-attr]
        assert len(await first.asearch(("a",), limit=100)) == 41
