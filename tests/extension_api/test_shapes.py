"""Names, order and defaults of every value in the contract: released extensions rely on each."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, fields
from enum import Flag, StrEnum
from typing import Any

import deerflow_extension_api as api
import pytest
from deerflow_extension_api import AgentScope, ExtensionPrincipal, HostPolicySnapshot, RunPage

REQUIRED = object()

SHAPES: dict[str, dict[str, Any]] = {
    "MiddlewarePlacement": {
        "middleware": REQUIRED,
        "placement": REQUIRED,
        "scope": AgentScope.BOTH,
        "order": 0,
    },
    "AgentBuildContext": {
        "scope": REQUIRED,
        "agent_name": None,
        "model_name": None,
        "policy": HostPolicySnapshot(),
    },
    "TaskInfo": {
        "task_id": REQUIRED,
        "run_id": REQUIRED,
        "thread_id": REQUIRED,
        "kind": REQUIRED,
        "parent_task_id": None,
        "agent_name": None,
        "resumed": False,
    },
    "SystemModelRequest": {"messages": (), "model_name": None, "invoke_config": None},
    "SystemModelResult": {"response": None, "error": None, "duration_ms": None},
    "CompactionEvent": {
        "transform_kind": REQUIRED,
        "transform_version": REQUIRED,
        "source_content_hashes": REQUIRED,
        "output_content_hash": REQUIRED,
        "compacted_message_count": REQUIRED,
        "kept_message_count": REQUIRED,
    },
    "AgentAssemblyDescriptor": {
        "namespace": REQUIRED,
        "agent_name": REQUIRED,
        "requested_model": REQUIRED,
        "effective_model": REQUIRED,
        "model_parameters": REQUIRED,
        "thinking_enabled": REQUIRED,
        "reasoning_effort": REQUIRED,
        "base_prompt_hash": REQUIRED,
        "tools": REQUIRED,
        "middlewares": REQUIRED,
        "deferred_tool_names": REQUIRED,
        "enabled_skills": REQUIRED,
        "effective_policies": REQUIRED,
        "build": {},
    },
    "ToolDescriptor": {
        "name": REQUIRED,
        "description_hash": REQUIRED,
        "schema_hash": REQUIRED,
        "source": REQUIRED,
        "mcp_server": None,
        "mcp_transport": None,
    },
    "MiddlewareDescriptor": {
        "name": REQUIRED,
        "module": REQUIRED,
        "policy_parameters": {},
        "extension": None,
    },
    "ExtensionRuntimeDeps": {
        "app_store": None,
        "policy": HostPolicySnapshot(),
        "session_factory": None,
        "run_evidence_reader": None,
    },
    "HostPolicySnapshot": {
        "token_budget_enabled": False,
        "max_input_tokens": None,
        "max_output_tokens": None,
        "max_total_tokens": None,
        "budget_warn_fraction": None,
        "budget_hard_fraction": None,
        "max_subagents_per_run": None,
    },
    "RunStatusView": {
        "thread_id": "",
        "run_id": "",
        "status": "",
        "created_at": "",
        "updated_at": "",
        "error": None,
        "stop_reason": None,
    },
    "RunEventView": {
        "thread_id": "",
        "run_id": "",
        "seq": 0,
        "event_type": "",
        "category": "",
        "content": None,
        "metadata": {},
        "created_at": "",
    },
    "RunPage": {"items": (), "next_cursor": None, "has_more": False},
    "RunEventPage": {"items": (), "next_after_seq": None, "has_more": False},
    "ExtensionPrincipal": {"user_id": REQUIRED, "is_admin": False, "is_internal": False, "roles": ()},
    "MessageProvenance": {"content_kind": REQUIRED, "producer_kind": REQUIRED, "producer_entity_id": None},
}

ENUMS: dict[str, set[str]] = {
    "Placement": {"MODEL_LOGICAL", "MODEL_PHYSICAL", "TOOL_VISIBLE", "TOOL_RAW", "STANDARD"},
    "TaskOutcome": {"COMPLETED", "ABORTED", "FAILED"},
    "SystemOperationKind": {"GOAL", "MEMORY", "TITLE", "SUMMARIZATION"},
    "ContentKind": {"MIDDLEWARE_INJECTION", "MEMORY", "DURABLE_CONTEXT", "SKILL_BODY", "IMAGE_PAYLOAD"},
}


def build(name: str) -> Any:
    """Return an instance with the required fields filled with their own names."""
    required = [field for field, default in SHAPES[name].items() if default is REQUIRED]
    return getattr(api, name)(*required)


def declared_default(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else REQUIRED


@pytest.mark.parametrize("name", SHAPES)
def test_a_value_has_the_fields_order_and_defaults_of_the_contract(name: str) -> None:
    declared = {field.name: declared_default(field) for field in fields(getattr(api, name))}
    assert list(declared.items()) == list(SHAPES[name].items())


@pytest.mark.parametrize("name", SHAPES)
def test_a_value_cannot_be_changed(name: str) -> None:
    value = build(name)
    for field in SHAPES[name]:
        with pytest.raises(FrozenInstanceError):
            setattr(value, field, None)


@pytest.mark.parametrize("name", SHAPES)
def test_equal_fields_make_equal_values(name: str) -> None:
    assert build(name) == build(name)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("RunEventView", "metadata"),
        ("MiddlewareDescriptor", "policy_parameters"),
        ("AgentAssemblyDescriptor", "build"),
    ],
)
def test_a_default_that_can_change_is_not_shared(name: str, field: str) -> None:
    assert getattr(build(name), field) is not getattr(build(name), field)


@pytest.mark.parametrize("name", ENUMS)
def test_the_value_of_an_enum_member_is_its_name_in_lower_case(name: str) -> None:
    enum = getattr(api, name)
    assert issubclass(enum, StrEnum)
    assert {member.name: member.value for member in enum} == {name: name.lower() for name in ENUMS[name]}


def test_the_scope_of_both_is_lead_and_subagent() -> None:
    assert issubclass(AgentScope, Flag)
    assert [scope.name for scope in AgentScope] == ["LEAD", "SUBAGENT"]
    assert AgentScope.BOTH == AgentScope.LEAD | AgentScope.SUBAGENT
    assert AgentScope.SUBAGENT not in AgentScope.LEAD


def test_a_wrong_placement_is_left_for_the_host_to_judge() -> None:
    assert api.MiddlewarePlacement(None, "nowhere", order=True).order is True


def test_values_without_mappings_can_be_keys() -> None:
    assert len({ExtensionPrincipal("u"), ExtensionPrincipal("u"), HostPolicySnapshot(), RunPage()}) == 3


def test_a_foreign_cursor_is_a_value_error() -> None:
    assert issubclass(api.InvalidRunEvidenceCursor, ValueError)


def test_the_keys_of_the_contract_have_their_fixed_text() -> None:
    assert api.EXTENSION_TASK_STORE_KEY == "__deerflow_extension_task_store"
    assert api.EXTENSION_PRINCIPAL_RESOLVER_KEY == "deerflow_extension_principal_resolver"
    assert api.MESSAGE_CONTENT_KIND_KEY == "deerflow_content_kind"
    assert api.MESSAGE_PRODUCER_KIND_KEY == "deerflow_producer_kind"
    assert api.MESSAGE_PRODUCER_ENTITY_ID_KEY == "deerflow_producer_entity_id"
