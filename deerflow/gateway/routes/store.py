"""The store: items under namespaces, each user's apart."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import InvalidRequestError
from deerflow.gateway.answers import FoundItems, Item, Namespaces, answers
from deerflow.gateway.auth.user_store import UserStore
from deerflow.gateway.bodies.store import (
    ItemBody,
    ItemNameBody,
    ItemSearchBody,
    Key,
    Namespace,
    NamespacesBody,
)
from deerflow.gateway.current import host_of, owner_of
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.responses import JsonResponse

router = APIRouter(route_class=GatewayRoute, tags=["store"], prefix="/store")

_NAMESPACE: TypeAdapter[list[str]] = TypeAdapter(Namespace)


@router.put("/items", status_code=204)
async def put(request: Request, body: ItemBody) -> Response:
    """Keep an item in place of the one of this name, if there is one."""
    await _store(request).put(body.namespace, body.key, body.value)
    return Response(status_code=204)


@router.get("/items", responses=answers(Item | None))
async def get(
    request: Request,
    key: Annotated[Key, Query()],
    namespace: Annotated[str, Query(description="The labels, joined by periods.")],
    refresh_ttl: bool | None = None,
) -> Response:
    """The item of this name; null where there is none."""
    return JsonResponse(await _store(request).get(_labels(namespace), key))


@router.delete("/items", status_code=204)
async def delete(request: Request, body: ItemNameBody) -> Response:
    """Remove the item of this name, if there is one."""
    await _store(request).delete(body.namespace, body.key)
    return Response(status_code=204)


@router.post("/items/search", responses=answers(FoundItems))
async def search(request: Request, body: ItemSearchBody) -> Response:
    """The items below a namespace whose values fit."""
    found = await _store(request).search(
        body.namespace_prefix or [], filter=body.filter, limit=body.limit, offset=body.offset
    )
    return JsonResponse({"items": found})


@router.post("/namespaces", responses=answers(Namespaces))
async def namespaces(request: Request, body: NamespacesBody) -> Response:
    """The namespaces that there are."""
    found = await _store(request).namespaces(
        prefix=body.prefix or [],
        suffix=body.suffix or [],
        max_depth=body.max_depth,
        limit=body.limit,
        offset=body.offset,
    )
    return JsonResponse({"namespaces": found})


def _store(request: Request) -> UserStore:
    return UserStore(host_of(request).store, owner_of(request))


def _labels(namespace: str) -> list[str]:
    try:
        return _NAMESPACE.validate_python(namespace.split("."))
    except ValidationError as error:
        raise InvalidRequestError(f"namespace: {error.errors()[0]['msg']}") from error
