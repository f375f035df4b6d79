"""Entry points: one that misbehaves while it is loaded, started, stopped or mounted, and a healthy one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow_extension_api import ExtensionRegistry
from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from support.hostile import FALSY, WRONG, Fault

JOURNAL: list[str] = []
"""What healthy entries were told; a test empties it."""


class HealthyService:
    def __init__(self, name: str) -> None:
        self._name = name

    async def start(self, deps: Any) -> None:
        JOURNAL.append(f"start service {self._name}")

    async def stop(self) -> None:
        JOURNAL.append(f"stop service {self._name}")


class HealthyTasks:
    def __init__(self, name: str) -> None:
        self._name = name

    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        JOURNAL.append(f"start {info.kind} {self._name}")

    async def on_task_stop(self, app_store: Any, task_store: Any, info: Any, outcome: Any) -> None:
        JOURNAL.append(f"stop {info.kind} {self._name} {outcome}")


def healthy(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """One of each kind that can be journaled, with `config["name"]`."""
    name = config["name"]
    registry.service(HealthyService(name))
    registry.task_lifecycle(HealthyTasks(name))
    router = APIRouter()
    router.add_api_route(f"/healthy/{name}", lambda: PlainTextResponse(name), methods=["GET"])
    registry.routers([router])


class _Falsy:
    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0


class _Service(_Falsy):
    """Misbehaves in one of its hooks; falsy anyhow."""

    def __init__(self, hook: str, fault: Fault) -> None:
        self._hook = hook
        self._fault = fault

    async def start(self, deps: Any) -> None:
        await self._act("start")

    async def stop(self) -> None:
        await self._act("stop")

    async def _act(self, hook: str) -> None:
        if hook == self._hook:
            await self._fault.commit()


class _PlainService(_Service):
    """Forgot that its hooks are async."""

    def start(self, deps: Any) -> Any:  # type: ignore[override]
        return self._fault.commit_now() if self._hook == "start" else None

    def stop(self) -> Any:  # type: ignore[override]
        return self._fault.commit_now() if self._hook == "stop" else None


class _FalsyRouter(APIRouter):
    def __bool__(self) -> bool:
        return False


class _FailingRouter(APIRouter):
    """Fails when the host looks at its routes."""

    fault: Fault | None = None

    @property  # type: ignore[misc]
    def routes(self) -> Any:
        if self.fault is not None:
            self.fault.commit_now()
        return []

    @routes.setter
    def routes(self, value: Any) -> None: ...


def _router(fault: Fault) -> Any:
    if fault.name == WRONG:
        fault.calls += 1
        return 42
    if fault.name == FALSY:
        fault.calls += 1
        router = _FalsyRouter()
        router.add_api_route("/falsy", lambda: PlainTextResponse("served"), methods=["GET"])
        return router
    failing = _FailingRouter()
    failing.fault = fault
    return failing


def broken(registry: ExtensionRegistry, config: Mapping[str, Any]) -> Any:
    """Misbehave as `config["fault"]` says, in `config["where"]`: install, start, stop, or a router."""
    fault, where = config["fault"], config["where"]
    if where == "routers":
        registry.routers([_router(fault)])
        return None
    registry.task_lifecycle(HealthyTasks("broken"))
    if where == "install":
        fault.commit_now()
        return _unawaited() if fault.name == WRONG else None
    registry.service((_PlainService if fault.name == WRONG else _Service)(where, fault))
    return None


async def _unawaited() -> None:
    JOURNAL.append("the coroutine of install was run")


class _FalsyInstall(_Falsy):
    def __call__(self, registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
        broken(registry, config)


falsy_broken = _FalsyInstall()
