"""The OpenAPI document tells the truth, and no request that it allows or forbids breaks the server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import APIRouter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support.gateways import RunningServer, said
from support.hosts import scripted_config
from support.json_schema_strategies import support_collections
from support.server_thread import server_thread
from support.users import users_app

from deerflow.extensions import reset_loaded_extensions
from deerflow.gateway.app import create_app
from deerflow.gateway.auth.authentication import PUBLIC_PATHS

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# What lasts as long as a run is tested with its clients.
LASTING = ("/stream", "/stream/events", "/wait", "/join")

support_collections()


def _document() -> Any:
    app = create_app({"database": {"backend": "memory"}})
    reset_loaded_extensions()
    return app.openapi()


def _operations() -> list[Any]:
    schema = schemathesis.openapi.from_dict(_document())
    operations = [result.ok() for result in schema.get_all_operations()]
    return [operation for operation in operations if not operation.path.endswith(LASTING)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    app = create_app(scripted_config(tmp_path_factory.mktemp("home"), shutdown={"drain_seconds": 0.01}))
    with server_thread(app) as running:
        yield running


@pytest.fixture
def things(server: RunningServer) -> dict[str, str]:
    """What there is for requests to name."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        thread_id = client.post("/threads", json={}).json()["thread_id"]
        run = client.post(f"/threads/{thread_id}/runs", json=said("hello")).json()
        client.get(f"/threads/{thread_id}/runs/{run['run_id']}/join")
        state = client.get(f"/threads/{thread_id}/state").json()
        assistant = client.post("/assistants", json={"graph_id": "lead_agent"}).json()
    return {
        "thread_id": thread_id,
        "run_id": run["run_id"],
        "checkpoint_id": state["checkpoint_id"],
        "assistant_id": assistant["assistant_id"],
        "graph_id": "lead_agent",
    }


def _naming(given: Any, things: dict[str, str]) -> Any:
    """The same with names of what there is."""
    if isinstance(given, list):
        return [_naming(item, things) for item in given]
    if not isinstance(given, dict):
        return given
    return given | {name: things[name] for name in given.keys() & things.keys()}


# The generators are older than hypothesis.
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.filterwarnings("ignore:Overriding standard format:hypothesis.errors.HypothesisWarning")
@pytest.mark.parametrize("operation", _operations(), ids=lambda operation: operation.label)
def test_server_answers_as_its_document_says(
    operation: Any, server: RunningServer, things: dict[str, str]
) -> None:
    # Of bodies that are no JSON no wrong ones can be made up, and a changed case cannot be sent.
    is_json = all(body.media_type == "application/json" for body in operation.body)
    modes = list(GenerationMode) if is_json else [GenerationMode.POSITIVE]
    cases = st.one_of(operation.as_strategy(generation_mode=mode) for mode in modes)

    @given(case=cases, real=st.booleans())
    @settings(max_examples=6, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def ask(case: Any, real: bool) -> None:
        if real and is_json:
            case.path_parameters = _naming(case.path_parameters, things)
            case.body = _naming(case.body, things)
        case.call_and_validate(base_url=server.url, checks=CHECKS)

    ask()


def _responses(document: Any) -> Iterator[tuple[str, str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                yield path, method, status, response


def test_every_error_is_one_string() -> None:
    document = _document()
    assert document["components"]["schemas"]["Error"]["properties"] == {
        "detail": {"title": "Detail", "type": "string"}
    }
    for path, method, status, response in _responses(document):
        assert "5XX" not in status and status != "500"
        if status.startswith(("4", "5")):
            schema = response["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Error"}, (path, method, status)
    assert "HTTPValidationError" not in str(document)


def test_every_json_answer_has_a_shape_unless_it_is_a_runs() -> None:
    free = {
        (path, method)
        for path, method, status, response in _responses(_document())
        for content in response.get("content", {}).values()
        if status == "200" and content["schema"] == {}
    }
    assert {path.rpartition("/")[2] for path, _ in free} == {"wait", "join", "cancel"}


def test_document_says_how_to_sign_in(tmp_path: Path) -> None:
    document = users_app(tmp_path).openapi()
    assert document["components"]["securitySchemes"].keys() == {"token", "session", "csrf"}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needed = [sorted(way) for way in operation["security"]]
            if path in PUBLIC_PATHS:
                assert (needed, "401" in operation["responses"]) == ([], path == "/auth/login")
            else:
                csrf = [] if method == "get" else ["csrf"]
                assert needed == [["token"], [*csrf, "session"]]
                assert "401" in operation["responses"]


def test_document_without_users_knows_no_sign_in() -> None:
    document = _document()
    assert "securitySchemes" not in document["components"]
    assert not any(status == "401" for _, _, status, _ in _responses(document))
    assert "/auth/login" not in document["paths"]


def test_contributed_routes_are_described_with_the_errors_that_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    router = APIRouter()

    @router.get("/acme/{n}")
    def acme(n: int) -> int:
        return n

    module: Any = ModuleType("acme")
    module.install = lambda registry, config: registry.routers([router])
    monkeypatch.setitem(sys.modules, "acme", module)
    app = create_app(
        {"database": {"backend": "memory"}, "plugins": [{"use": "acme:install", "required": True}]}
    )
    responses = app.openapi()["paths"]["/acme/{n}"]["get"]["responses"]
    assert responses["422"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}
    assert app.openapi() is app.openapi()
