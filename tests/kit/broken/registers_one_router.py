"""Forgot that routers are a sequence."""

from fastapi import APIRouter


def install(registry, config):
    registry.routers(APIRouter())
