"""The package as a whole: what it exports and what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import deerflow_extension_api as api
import pytest

DISTRIBUTION = Path(__file__).parents[2] / "extension_api"
SOURCES = sorted((DISTRIBUTION / "deerflow_extension_api").rglob("*.py"))

CONTRACT_NAMES = """
    API_VERSION AgentAssemblyDescriptor AgentAssemblyObserver AgentBuildContext AgentScope CompactionEvent
    ContentKind ContextCompactionObserver EXTENSION_PRINCIPAL_RESOLVER_KEY EXTENSION_TASK_STORE_KEY
    ExtensionData ExtensionInstall ExtensionPrincipal ExtensionRegistry ExtensionRuntimeDeps ExtensionService
    HostPolicySnapshot InvalidRunEvidenceCursor MESSAGE_CONTENT_KIND_KEY MESSAGE_PRODUCER_ENTITY_ID_KEY
    MESSAGE_PRODUCER_KIND_KEY MessageProvenance MiddlewareContributor MiddlewareDescriptor MiddlewarePlacement
    PROVENANCE_KEYS Placement ReleasePolicyProvider RunEventPage RunEventView RunEvidenceReader RunPage
    RunStatusView SystemModelCallObserver SystemModelRequest SystemModelResult SystemOperationKind TaskInfo
    TaskLifecycleContributor TaskOutcome ToolDescriptor WRAPPED_MIDDLEWARE_ATTRIBUTE canonical_hash
    canonical_json collect_release_policies extension provenance_kwargs read_provenance require_admin
    resolve_principal task_store_from_runtime
"""

IMPORT_ALONE = """
import sys
before = set(sys.modules)
sys.path.insert(0, {folder!r})
import deerflow_extension_api as api
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
foreign = loaded - set(sys.stdlib_module_names) - {{"deerflow_extension_api"}}
assert not foreign, foreign
assert not any("site-packages" in folder for folder in sys.path), sys.path
print(api.API_VERSION, len(loaded))
"""


def public_definitions(source: Path) -> set[str]:
    """Return the public names that a module defines at its top level."""
    names: set[str] = set()
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) if name != "T":
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def imported_modules(source: Path) -> set[str]:
    """Return the top-level modules that a file imports anywhere, its own package left out."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                modules |= {alias.name.partition(".")[0] for alias in names}
            case ast.ImportFrom(module=module, level=0):
                modules.add(str(module).partition(".")[0])
    return modules


def test_every_name_of_the_contract_is_importable_from_the_root() -> None:
    assert set(CONTRACT_NAMES.split()) == set(api.__all__)
    assert [name for name in api.__all__ if not hasattr(api, name)] == []


def test_all_is_alphabetical_without_repetition() -> None:
    assert api.__all__ == sorted(set(api.__all__))


@pytest.mark.parametrize("source", [path for path in SOURCES if path.name[0] != "_"], ids=lambda p: p.stem)
def test_everything_public_in_a_module_is_exported_at_the_root(source: Path) -> None:
    assert public_definitions(source) - set(api.__all__) == set()


def test_the_version_is_the_one_of_the_distribution() -> None:
    project = tomllib.loads((DISTRIBUTION / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert api.API_VERSION == project["version"] == version("deerflow-extension-api") == "0.2.1"


def test_the_distribution_has_no_dependencies() -> None:
    project = tomllib.loads((DISTRIBUTION / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == []
    assert not requires("deerflow-extension-api")


def test_the_package_imports_without_any_installed_distribution() -> None:
    code = IMPORT_ALONE.format(folder=str(DISTRIBUTION))
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0.2.1 ")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_source_file_imports_anything_but_the_standard_library(source: Path) -> None:
    assert imported_modules(source) - sys.stdlib_module_names == set()
