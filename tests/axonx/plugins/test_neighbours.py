"""A healthy plugin beside broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.axonx_plugins import COMPONENT, install

from axonx import Application
from axonx.components.job import PipelineJob
from axonx.plugins.errors import PluginImportError


async def test_a_healthy_plugin_works_beside_one_that_fails_and_one_that_conflicts(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, "failing", "components: {formatter: {bad: '{package}.fmt:Fmt'}}", fmt="import nope_xyz")
    install(site, "conflicting", "components: {job: {pipeline: '{package}.fmt:Fmt'}}", fmt=COMPONENT)
    install(site, "unreadable", "components: [")
    healthy = (
        "{components: {formatter: {pf: '{package}.fmt:Fmt'}}, jobs: {greet: {steps: [{backend: demo_step}]}}}"
    )
    install(site, "healthy", healthy, fmt=COMPONENT)
    async with Application(
        workspace_dir=tmp_path / "workspace", components={"formatter": {"default": {"backend": "pf"}}}
    ) as app:
        assert (await app.run_job("greet")).answer == "Hello, AxonX!"
        assert type(app.context.jobs["greet"]) is PipelineJob
        assert app.context.registry.frozen
        owners = {owner for owner, _ in app.context.plugin_problems}
    assert owners == {"conflicting", "unreadable"}
    assert "'axonx.components.job.pipeline.PipelineJob' and 'conflicting'" in caplog.text
    with pytest.raises(
        PluginImportError, match=r"plugin 'failing', components\.formatter\.bad\) cannot be imported"
    ):
        Application(workspace_dir=tmp_path, components={"formatter": {"default": {"backend": "bad"}}})
