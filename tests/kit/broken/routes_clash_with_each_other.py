"""Routers of which the second can never be reached."""

from fastapi import APIRouter

first = APIRouter(prefix="/acme")
first.add_api_route("/{item}", lambda item: item)
second = APIRouter(prefix="/acme")
second.add_api_route("/{number:int}", lambda number: number)


def install(registry, config):
    registry.routers([first, second])
