"""The store over HTTP, on every database: items under namespaces, each user's apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.databases import database_config, postgres_database, postgres_url
from support.gateways import GatewayClient, gateway
from support.users import users_gateway

from deerflow.config import AppConfig
from deerflow.gateway.auth.user_store import UserStore
from deerflow.persistence import open_store

__all__ = ["database_config", "postgres_database", "postgres_url"]


@pytest.fixture
async def client(tmp_path: Path, database_config: AppConfig) -> AsyncIterator[GatewayClient]:
    database = {"backend": database_config.database.backend, "url": database_config.database.url}
    async with gateway(tmp_path, database=database) as opened:
        yield opened


async def _put(client: httpx.AsyncClient, namespace: list[str], key: str, value: Any) -> None:
    response = await client.put("/store/items", json={"namespace": namespace, "key": key, "value": value})
    assert (response.status_code, response.content) == (204, b"")


async def _search(client: httpx.AsyncClient, **body: Any) -> list[Any]:
    response = await client.post("/store/items/search", json=body)
    assert response.status_code == 200, response.text
    items: list[Any] = response.json()["items"]
    return items


async def _namespaces(client: httpx.AsyncClient, **body: Any) -> list[Any]:
    response = await client.post("/store/namespaces", json=body)
    assert response.status_code == 200, response.text
    return sorted(response.json()["namespaces"])


async def test_item_is_kept_replaced_and_removed(client: GatewayClient) -> None:
    where = {"namespace": "notes.2024", "key": "a b/ä"}
    content = (
        b'{"namespace": ["notes", "2024"], "key": "a b/\\u00e4", "value": {"n": 1, "x": "\\u0000 \\ud83d"}}'
    )
    headers = {"content-type": "application/json"}
    assert (await client.put("/store/items", content=content, headers=headers)).status_code == 204
    item = (await client.get("/store/items", params=where)).json()
    assert (item["namespace"], item["key"], item["value"]["n"]) == (["notes", "2024"], "a b/ä", 1)
    assert set(item) == {"namespace", "key", "value", "created_at", "updated_at"}
    age = datetime.now(UTC) - datetime.fromisoformat(item["created_at"])
    assert abs(age) < timedelta(minutes=1), "times have an offset, and are right"
    await _put(client, ["notes", "2024"], "a b/ä", {"n": 2})
    assert (await client.get("/store/items", params=where)).json()["value"] == {"n": 2}
    gone = {"namespace": ["notes", "2024"], "key": "a b/ä"}
    for _ in range(2):
        assert (await client.request("DELETE", "/store/items", json=gone)).status_code == 204
    assert (await client.get("/store/items", params=where)).json() is None


async def test_items_are_found_below_a_namespace_and_by_their_values(client: GatewayClient) -> None:
    for n in range(3):
        await _put(client, ["a", "b"], f"k{n}", {"n": n, "odd": bool(n % 2), "name": f"x{n}"})
    await _put(client, ["a"], "top", {"n": 9})
    await _put(client, ["ab"], "other", {"n": 1})
    assert {item["key"] for item in await _search(client, namespace_prefix=["a"])} == {
        "k0",
        "k1",
        "k2",
        "top",
    }
    assert len(await _search(client)) == 5
    assert [item["key"] for item in await _search(client, namespace_prefix=["a", "b"], filter={"n": 1})] == [
        "k1"
    ]
    assert {item["key"] for item in await _search(client, filter={"n": {"$gte": 2}})} == {"k2", "top"}
    assert [item["key"] for item in await _search(client, filter={"odd": True, "name": "x1"})] == ["k1"]
    page = [await _search(client, namespace_prefix=["a", "b"], limit=2, offset=offset) for offset in (0, 2)]
    assert (len(page[0]), len(page[1])) == (2, 1)
    assert page[0][0]["score"] is None


async def test_namespaces_are_listed_by_their_ends_and_depth(client: GatewayClient) -> None:
    for namespace in (["a", "x", "1"], ["a", "y", "1"], ["b", "x"]):
        await _put(client, namespace, "k", {})
    assert await _namespaces(client) == [["a", "x", "1"], ["a", "y", "1"], ["b", "x"]]
    assert await _namespaces(client, prefix=["a"], max_depth=2) == [["a", "x"], ["a", "y"]]
    assert await _namespaces(client, suffix=["1"]) == [["a", "x", "1"], ["a", "y", "1"]]
    assert await _namespaces(client, prefix=["*", "x"]) == [["a", "x", "1"], ["b", "x"]]
    assert len(await _namespaces(client, limit=1, offset=1)) == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "items", {"namespace": [], "key": "k", "value": {}}),
        ("PUT", "items", {"namespace": ["a.b"], "key": "k", "value": {}}),
        ("PUT", "items", {"namespace": [""], "key": "k", "value": {}}),
        ("PUT", "items", {"namespace": ["a\x00"], "key": "k", "value": {}}),
        ("PUT", "items", {"namespace": ["a"], "key": "", "value": {}}),
        ("PUT", "items", {"namespace": ["a"], "key": "k\n", "value": {}}),
        ("PUT", "items", {"namespace": ["a"], "key": "k", "value": [1]}),
        ("PUT", "items", {"namespace": ["a"] * 21, "key": "k", "value": {}}),
        ("PUT", "items", {"namespace": ["a"], "key": "k", "value": {}, "ttl": 5}),
        ("DELETE", "items", {"namespace": [], "key": "k"}),
        ("POST", "items/search", {"filter": {"a": {"$regex": "x"}}}),
        ("POST", "items/search", {"filter": {"a": {}}}),
        ("POST", "items/search", {"filter": {"a') OR 1=1 --": 1}}),
        ("POST", "items/search", {"filter": {"a": [1]}}),
        ("POST", "items/search", {"filter": {"a": {"$gt": {"b": 1}}}}),
        ("POST", "items/search", {"namespace_prefix": ["a.b"]}),
        ("POST", "items/search", {"limit": 0}),
        ("POST", "items/search", {"offset": 2**60}),
        ("POST", "namespaces", {"max_depth": 0}),
    ],
)
async def test_senseless_requests_are_refused(tmp_path: Path, method: str, path: str, body: Any) -> None:
    async with gateway(tmp_path) as client:
        response = await client.request(method, f"/store/{path}", json=body)
        assert response.status_code == 422, response.text
        assert isinstance(response.json()["detail"], str)


@pytest.mark.parametrize(
    "params", [{}, {"key": "k"}, {"namespace": "", "key": "k"}, {"namespace": "a..b", "key": "k"}]
)
async def test_item_without_a_proper_name_is_refused(tmp_path: Path, params: Any) -> None:
    async with gateway(tmp_path) as client:
        assert (await client.get("/store/items", params=params)).status_code == 422


async def test_comparison_that_the_database_refuses_is_the_callers_fault(client: GatewayClient) -> None:
    await _put(client, ["a"], "k", {"n": "text"})
    for wanted in ({"$gt": None}, {"$lt": 5}, {"$gt": "a"}, {"$gt": 1e300}, {"$eq": None}):
        response = await client.post("/store/items/search", json={"filter": {"n": wanted}})
        assert response.status_code in (200, 422), (wanted, response.text)


async def test_users_have_stores_of_their_own(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway_of_users:
        clients = [await gateway_of_users.user(name) for name in ("al", "alice", "a.l", "a+l")]
        clients.append(await gateway_of_users.admin("root"))
        for n, client in enumerate(clients):
            await _put(client, ["a"], "k", {"n": n})
        for n, client in enumerate(clients):
            item = await client.get("/store/items", params={"namespace": "a", "key": "k"})
            assert item.json()["value"] == {"n": n}
            assert [found["value"] for found in await _search(client)] == [{"n": n}]
            assert await _namespaces(client) == [["a"]]
            assert await _namespaces(client, prefix=["*"]) == [["a"]]
            for odd in ("deerflow_items", "deerflow_memory", "*", "%"):
                assert await _search(client, namespace_prefix=[odd]) == []


async def test_what_is_not_the_users_cannot_be_named(database_config: AppConfig) -> None:
    async with open_store(database_config) as store:
        await store.aput(("deerflow_memory", "alice"), "fact", {"text": "swordfish"})
        await UserStore(store, None).put(["a"], "k", {"n": 0})
        await UserStore(store, "bob").put(["a"], "k", {"n": 1})
        for user_id in (None, "bob"):
            mine = UserStore(store, user_id)
            assert len(await mine.search([], filter=None, limit=10, offset=0)) == 1
            listed = await mine.namespaces(prefix=[], suffix=[], max_depth=None, limit=10, offset=0)
            assert listed == [["a"]]
