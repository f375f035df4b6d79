"""An application in the place of a router."""

from fastapi import FastAPI


def install(registry, config):
    registry.routers([FastAPI()])
