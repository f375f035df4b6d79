"""A router with a handler that would never be called."""

from fastapi import APIRouter

router = APIRouter(on_startup=[print])
router.add_api_route("/acme", lambda: None)


def install(registry, config):
    registry.routers([router])
