"""What people see who ask for the installed plugins."""

from __future__ import annotations

from pathlib import Path

from support.axonx_plugins import COMPONENT, TASK, install

from axonx.plugins.listing import plugin_reports


def test_every_plugin_is_listed_with_what_it_brings_and_what_is_wrong(site: Path) -> None:
    healthy = install(
        site,
        "healthy",
        "{components: {formatter: {pf: '{package}.fmt:Fmt'}}, jobs: {j: {}}, tasks: {t: '{package}.a:Job'}}",
        fmt=COMPONENT,
        a=TASK,
    )
    install(site, "importing", "components: {formatter: {pg: '{package}.fmt:Fmt'}}", fmt="import nope_xyz")
    install(site, "conflicting", "components: {job: {pipeline: '{package}.fmt:Fmt'}}", fmt=COMPONENT)
    install(site, "unbuildable", "jobs: {k: {steps: [{backend: nope}]}}")
    install(site, "without", None)
    reports = {report.name: report for report in plugin_reports()}
    assert reports["healthy"].problems == []
    assert reports["healthy"].components == {"formatter:pf": f"{healthy}.fmt:Fmt"}
    assert reports["healthy"].tasks == {"t": f"{healthy}.a:Job"}
    assert reports["healthy"].jobs == ["j"]
    expected = {
        "importing": "No module named 'nope_xyz'",
        "conflicting": "supplied by both 'axonx.components.job.pipeline.PipelineJob' and 'conflicting'",
        "unbuildable": "Job 'k' cannot be built: UnknownProviderError",
        "without": "has no plugin.yaml",
    }
    for name, problem in expected.items():
        assert problem in "; ".join(reports[name].problems), name


def test_a_job_of_two_plugins_is_a_problem_of_both(site: Path) -> None:
    for name in ("pa", "pb"):
        install(site, name, "jobs: {j: {}}")
    for report in plugin_reports():
        assert "Job 'j' is provided by plugins 'pa' and 'pb'" in report.problems[0]
