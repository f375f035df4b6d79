"""A route that the host has already."""

from fastapi import APIRouter

router = APIRouter()


@router.post("/threads")
def threads():
    return {}


def install(registry, config):
    registry.routers([router])
