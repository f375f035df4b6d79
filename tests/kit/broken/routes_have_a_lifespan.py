"""A router with a life of its own."""

from contextlib import asynccontextmanager

from fastapi import APIRouter


@asynccontextmanager
async def lifespan(app):
    yield


router = APIRouter(lifespan=lifespan)


@router.get("/acme")
def acme():
    return {}


def install(registry, config):
    registry.routers([router])
