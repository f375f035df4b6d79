"""A kind of route that cannot be contributed."""

from fastapi import APIRouter, WebSocket

router = APIRouter()


@router.websocket("/acme")
async def acme(socket: WebSocket):
    await socket.accept()


def install(registry, config):
    registry.routers([router])
