"""Applications in an environment with plugins: healthy ones, broken ones, conflicting ones."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from support.axonx_plugins import COMPONENT, TASK, install

from axonx import Application, BaseComponent, provider
from axonx.errors import AxonXError, ConfigurationError, ProviderConflictError, UnknownJobError
from axonx.plugins.errors import PluginImportError, PluginTargetError
from axonx.task import TaskCatalogue
from axonx.task.defaults import TASK_COMPONENTS, TASK_JOBS

FORMATTER = "components: {formatter: {pf: '{package}.fmt:Fmt'}}"


def app(tmp_path: Path, **config: Any) -> Application:
    return Application(workspace_dir=tmp_path / "workspace", **config)


def with_formatter(tmp_path: Path, **options: Any) -> Application:
    return app(tmp_path, components={"formatter": {"default": {"backend": "pf", **options}}})


async def test_a_plugins_job_made_of_built_in_steps_runs(site: Path, tmp_path: Path) -> None:
    install(site, "pa", "jobs: {greet: {steps: [{backend: demo_step}], defaults: {name: plugin}}}")
    async with app(tmp_path) as running:
        assert (await running.run_job("greet")).answer == "Hello, plugin!"


def test_a_plugins_component_is_configured_by_the_application(site: Path, tmp_path: Path) -> None:
    install(site, "pa", FORMATTER, fmt=COMPONENT)
    composed = with_formatter(tmp_path, prefix="* ")
    assert composed.context.component("formatter").prefix == "* "  # type: ignore[attr-defined]
    registration = composed.context.registry.find("formatter", "pf")
    assert registration is not None
    assert registration.owner == "pa"
    assert composed.context.registry.frozen


def test_a_plugins_classes_are_imported_when_they_are_used(site: Path, tmp_path: Path) -> None:
    package = install(site, "pa", FORMATTER, fmt=COMPONENT)
    app(tmp_path)
    assert not any(name.startswith(package) for name in sys.modules)
    with_formatter(tmp_path)
    assert f"{package}.fmt" in sys.modules


def test_a_plugin_without_manifest_is_named_in_the_log_and_costs_nothing_else(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, "broken", None)
    install(site, "healthy", FORMATTER, fmt=COMPONENT)
    with_formatter(tmp_path)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1
    assert lines[0].startswith("Plugin 'broken': package 'broken_")
    assert "has no plugin.yaml" in lines[0]


@pytest.mark.parametrize("body", ["import no_such_module_xyz", "1 / 0", "raise SystemExit(3)", "x ="])
def test_a_broken_component_target_matters_only_where_it_is_used(
    site: Path, tmp_path: Path, body: str
) -> None:
    install(site, "pa", FORMATTER, fmt=body)
    app(tmp_path)
    with pytest.raises(PluginImportError, match=r"fmt:Fmt \(plugin 'pa', components.formatter.pf\) cannot"):
        with_formatter(tmp_path)


def test_a_missing_module_is_named_without_importing_anything(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    package = install(site, "pa", FORMATTER, __init__="1 / 0")
    app(tmp_path)
    assert f"Plugin 'pa': components.formatter.pf: module '{package}.fmt'" in caplog.text


def test_a_step_among_the_components_is_refused(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    step = """
    from axonx import BaseStep
    class Step(BaseStep):
        async def execute(self): ...
    """
    package = install(site, "pa", "components: {step: {mine: '{package}.mod:Step'}}", mod=step)
    message = f"Component target must subclass BaseComponent: {package}.mod:Step"
    app(tmp_path)
    assert message in caplog.text
    with pytest.raises(TypeError, match=message):
        app(tmp_path, jobs={"j": {"steps": [{"backend": "mine"}]}})


@pytest.mark.parametrize(
    ("category", "target", "message"),
    [
        ("cache", "fmt:Fmt", "fmt:Fmt declares type 'formatter', expected 'cache'"),
        ("formatter", "fmt:BaseComponent", "declares type 'base', expected 'formatter'"),
        ("formatter", "fmt:__name__", "Component target must subclass BaseComponent"),
        ("formatter", "fmt:Nope", "cannot be imported: AttributeError"),
    ],
)
def test_a_component_target_must_be_of_its_category(
    site: Path, tmp_path: Path, category: str, target: str, message: str
) -> None:
    install(site, "pa", f"components: {{{category}: {{pf: '{{package}}.{target}'}}}}", fmt=COMPONENT)
    app(tmp_path)
    with pytest.raises((PluginTargetError, PluginImportError), match=message):
        app(tmp_path, components={category: {"default": {"backend": "pf"}}})


def test_a_conflict_with_a_built_in_names_both_owners_and_changes_nothing(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, "pa", "components: {job: {pipeline: '{package}:X', mine: '{package}:X'}}")
    composed = app(tmp_path, jobs={"j": {"steps": [{"backend": "demo_step"}]}})
    assert "'job:pipeline' is supplied by both 'axonx.components.job.pipeline.PipelineJob' and 'pa'" in (
        caplog.text
    )
    assert type(composed.context.jobs["j"]).__module__ == "axonx.components.job.pipeline"
    assert "mine" in composed.context.registry.backends("job")


def test_what_two_plugins_offer_is_refused_to_whoever_asks_for_it(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("pa", "pb"):
        install(site, name, FORMATTER, fmt=COMPONENT)
    app(tmp_path)
    message = "Component backend formatter:pf is provided by plugins 'pa' and 'pb'"
    assert f"Plugin 'pb': {message}" in caplog.text
    with pytest.raises(ProviderConflictError, match=message):
        with_formatter(tmp_path)


def test_jobs_are_provided_once(site: Path, tmp_path: Path) -> None:
    install(site, "pa", "jobs: {j: {}}")
    with pytest.raises(
        ConfigurationError, match=r"Jobs provided by both application config and plugins: j \(plugin 'pa'\)"
    ):
        app(tmp_path, jobs={"j": {}})
    install(site, "pb", "jobs: {j: {}}")
    with pytest.raises(ConfigurationError, match="Job 'j' is provided by plugins 'pa' and 'pb'"):
        app(tmp_path)


def test_one_class_given_to_the_application_and_offered_by_a_plugin_is_no_conflict(
    site: Path, tmp_path: Path
) -> None:
    package = install(site, "pa", "components: {formatter: {pf: '{package}:Fmt'}}", __init__="")
    init = site / package / "__init__.py"
    init.write_text(f"from axonx import provider\n{COMPONENT}\nprovider('pf')(Fmt)\n")
    cls = __import__(package).Fmt
    components = {"formatter": {"default": {"backend": "pf"}}}
    composed = app(tmp_path, providers=(cls,), components=components)
    assert type(composed.context.component("formatter")) is cls


def test_another_class_given_to_the_application_is_a_conflict(site: Path, tmp_path: Path) -> None:
    @provider("pf")
    class Mine(BaseComponent):
        component_type = "formatter"

    install(site, "pa", FORMATTER, fmt=COMPONENT)
    with pytest.raises(ProviderConflictError, match=r"'formatter:pf' is supplied by both '.*Mine' and 'pa'"):
        app(tmp_path, providers=(Mine,))


@pytest.mark.parametrize(
    "job",
    [
        "{steps: [{backend: no_such_step}]}",
        "{steps: [{backend: demo_step, no_such_option: 1}]}",
        "{parameters: {type: array}}",
        "{event_bufer_size: 3}",
    ],
)
async def test_a_plugins_job_that_cannot_be_built_costs_only_itself(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, job: str
) -> None:
    install(site, "pa", f"jobs: {{bad: {job}, good: {{steps: [{{backend: demo_step}}]}}}}")
    async with app(tmp_path) as running:
        assert (await running.run_job("good")).success
        with pytest.raises(
            UnknownJobError, match=r"Unknown job: 'bad' \(plugin 'pa': Job 'bad' cannot be built"
        ):
            await running.run_job("bad")
    assert "Plugin 'pa': Job 'bad' cannot be built" in caplog.text


async def test_a_conflicting_task_costs_that_plugins_task_only(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = (
        "tasks: {demo: '{package}.mod:Job', fine: '{package}.mod:Job', gone: '{package}.nope:Job', "
        "'not a name': '{package}.mod:Job', other: '{package}.mod:BaseOutputParams'}"
    )
    package = install(site, "pa", tasks, mod=TASK)
    config = {"components": TASK_COMPONENTS, "jobs": TASK_JOBS}
    async with app(tmp_path, **config) as running:
        response = await running.run_job("list_installed_task_definitions", {"include_schemas": False})
        assert response.success
        found = {each["name"]: each["source"] for each in response.answer}
        assert found == {"demo": "native", "fine": "plugin"}
        assert (await running.run_job("get_task_definition", {"task": "demo"})).success
        gone = await running.run_job("get_task_definition", {"task": "gone"})
        assert f"{package}.nope:Job (plugin 'pa', tasks.gone) cannot be imported" in gone.answer
    assert "Plugin Task names conflict with built-ins: demo" in caplog.text
    assert "'axonx.task.demo.DemoTask' and 'pa'" in caplog.text
    assert "tasks.not a name: Invalid registered Task name" in caplog.text


def test_a_task_of_two_plugins_is_refused_to_whoever_asks_for_it(site: Path, tmp_path: Path) -> None:
    for name in ("pa", "pb"):
        install(site, name, "tasks: {t: '{package}.mod:Job'}", mod=TASK)
    catalogue = TaskCatalogue(app(tmp_path).context.registry)
    with pytest.raises(AxonXError, match="Task 't' is provided by plugins 'pa' and 'pb'"):
        catalogue.resolve("t")
    assert [info.name for info in catalogue.usable()] == ["demo"]


def test_a_task_among_the_components_does_not_replace_the_one_under_tasks(site: Path, tmp_path: Path) -> None:
    manifest = "{tasks: {t: '{package}.mod:Job'}, components: {task: {t: '{package}.mod:Job'}}}"
    install(site, "pa", manifest, mod=TASK)
    assert TaskCatalogue(app(tmp_path).context.registry).info("t").plugin == "pa"


def test_plugins_leave_the_next_application_as_it_was(site: Path, tmp_path: Path) -> None:
    before = app(tmp_path).context.registry.backends("formatter")
    install(site, "pa", FORMATTER, fmt=COMPONENT)
    with_formatter(tmp_path)
    for path in site.glob("*.dist-info/entry_points.txt"):
        path.unlink()
    assert app(tmp_path).context.registry.backends("formatter") == before == ()
