"""System parameters: declared by Steps, supplied by the framework, closed to callers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from axonx import Application, BaseStep, provider


def tenant_step(backend: str, schema: Mapping[str, Any]) -> type[BaseStep]:
    @provider(backend)
    class Tenant(BaseStep):
        injected_parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {"tenant": schema}

        async def execute(self) -> None:
            self.response.answer = self.context.get("tenant")

    return Tenant


STRING = {"type": "string"}


async def test_injected_values_come_from_the_framework_only(tmp_path: Path) -> None:
    async with Application(
        providers=(tenant_step("tenant", STRING),),
        workspace_dir=tmp_path,
        jobs={"job": {"steps": [{"backend": "tenant"}], "defaults": {"tenant": "default"}}},
    ) as app:
        with pytest.raises(ValueError, match="System-owned arguments cannot be supplied by callers: tenant"):
            await app.run_job("job", {"tenant": "me"})
        run = app.context.dispatcher.run
        assert (await run("job")).answer == "default"
        assert (await run("job", system={"tenant": "acme"})).answer == "acme"
        with pytest.raises(
            ValueError, match="Invalid system arguments for job 'job': tenant: 3 is not of type"
        ):
            await run("job", system={"tenant": 3})
        with pytest.raises(ValueError, match=r"Invalid system arguments .* \('other' was unexpected\)"):
            await run("job", system={"other": 3})
        events = [event async for event in app.context.dispatcher.stream("job", system={"tenant": "b"})]
        assert events[-1].answer == "b"  # type: ignore[union-attr]


async def test_injected_parameters_are_not_shown_to_callers(tmp_path: Path) -> None:
    job = {"parameters": {"type": "object", "properties": {"text": STRING}}, "steps": [{"backend": "tenant"}]}
    jobs = {"job": job, "help": {"steps": [{"backend": "help_step"}]}}
    app = Application(providers=(tenant_step("tenant", STRING),), workspace_dir=tmp_path, jobs=jobs)
    async with app:
        catalog = (await app.run_job("help")).answer
    assert catalog["items"][0]["input_schema"] == job["parameters"]


@pytest.mark.parametrize(
    ("steps", "properties", "message"),
    [
        (["a"], {"tenant": {}}, "Job parameters conflict with injected parameters: tenant"),
        (["a", "b"], {}, "Conflicting injected Job parameter: 'tenant'"),
    ],
)
def test_injected_parameters_must_not_conflict(
    tmp_path: Path, steps: list[str], properties: dict[str, Any], message: str
) -> None:
    jobs = {
        "job": {
            "parameters": {"type": "object", "properties": properties},
            "steps": [{"backend": name} for name in steps],
        }
    }
    providers = (tenant_step("a", STRING), tenant_step("b", {"type": "integer"}))
    with pytest.raises(ValueError, match=message):
        Application(providers=providers, workspace_dir=tmp_path, jobs=jobs)


async def test_steps_may_share_an_injected_parameter(tmp_path: Path) -> None:
    providers = (tenant_step("a", STRING), tenant_step("b", dict(STRING)))
    jobs = {"job": {"steps": [{"backend": "a"}, {"backend": "b"}]}}
    async with Application(providers=providers, workspace_dir=tmp_path, jobs=jobs) as app:
        assert (await app.context.dispatcher.run("job", system={"tenant": "x"})).answer == "x"
