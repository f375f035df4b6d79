"""A route where only the host may answer."""

from fastapi import APIRouter

router = APIRouter()


@router.get("/health/acme")
def health():
    return {}


def install(registry, config):
    registry.routers([router])
