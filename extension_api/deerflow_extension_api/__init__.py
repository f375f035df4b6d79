"""The contract between the deerflow host and its extensions.

An extension is a function that registers contributions:

    @extension(api="0.2")
    def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
        registry.task_lifecycle(MyLifecycle())

This package needs nothing but the standard library. Objects of LangChain, LangGraph, FastAPI and SQLAlchemy
are `Any` here; the host checks them.
"""

from __future__ import annotations

from .assembly import AgentAssemblyDescriptor, AgentAssemblyObserver, MiddlewareDescriptor, ToolDescriptor
from .compaction import CompactionEvent, ContextCompactionObserver
from .evidence import (
    InvalidRunEvidenceCursor,
    RunEventPage,
    RunEventView,
    RunEvidenceReader,
    RunPage,
    RunStatusView,
)
from .hashing import canonical_hash, canonical_json
from .identity import (
    EXTENSION_PRINCIPAL_RESOLVER_KEY,
    ExtensionPrincipal,
    require_admin,
    resolve_principal,
)
from .lifecycle import TaskInfo, TaskLifecycleContributor, TaskOutcome
from .middleware import (
    AgentBuildContext,
    AgentScope,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from .observers import (
    SystemModelCallObserver,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
)
from .policy import HostPolicySnapshot
from .provenance import (
    MESSAGE_CONTENT_KIND_KEY,
    MESSAGE_PRODUCER_ENTITY_ID_KEY,
    MESSAGE_PRODUCER_KIND_KEY,
    PROVENANCE_KEYS,
    ContentKind,
    MessageProvenance,
    provenance_kwargs,
    read_provenance,
)
from .registry import ExtensionInstall, ExtensionRegistry, extension
from .release import WRAPPED_MIDDLEWARE_ATTRIBUTE, ReleasePolicyProvider, collect_release_policies
from .services import ExtensionRuntimeDeps, ExtensionService
from .state import EXTENSION_TASK_STORE_KEY, ExtensionData, task_store_from_runtime
from .version import API_VERSION

__all__ = [  # noqa: RUF022 - plain alphabetical order, as sorted() gives it
    "API_VERSION",
    "AgentAssemblyDescriptor",
    "AgentAssemblyObserver",
    "AgentBuildContext",
    "AgentScope",
    "CompactionEvent",
    "ContentKind",
    "ContextCompactionObserver",
    "EXTENSION_PRINCIPAL_RESOLVER_KEY",
    "EXTENSION_TASK_STORE_KEY",
    "ExtensionData",
    "ExtensionInstall",
    "ExtensionPrincipal",
    "ExtensionRegistry",
    "ExtensionRuntimeDeps",
    "ExtensionService",
    "HostPolicySnapshot",
    "InvalidRunEvidenceCursor",
    "MESSAGE_CONTENT_KIND_KEY",
    "MESSAGE_PRODUCER_ENTITY_ID_KEY",
    "MESSAGE_PRODUCER_KIND_KEY",
    "MessageProvenance",
    "MiddlewareContributor",
    "MiddlewareDescriptor",
    "MiddlewarePlacement",
    "PROVENANCE_KEYS",
    "Placement",
    "ReleasePolicyProvider",
    "RunEventPage",
    "RunEventView",
    "RunEvidenceReader",
    "RunPage",
    "RunStatusView",
    "SystemModelCallObserver",
    "SystemModelRequest",
    "SystemModelResult",
    "SystemOperationKind",
    "TaskInfo",
    "TaskLifecycleContributor",
    "TaskOutcome",
    "ToolDescriptor",
    "WRAPPED_MIDDLEWARE_ATTRIBUTE",
    "canonical_hash",
    "canonical_json",
    "collect_release_policies",
    "extension",
    "provenance_kwargs",
    "read_provenance",
    "require_admin",
    "resolve_principal",
    "task_store_from_runtime",
]
