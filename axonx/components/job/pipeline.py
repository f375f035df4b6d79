"""A Job made of Steps that run one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from axonx.components.job.base import BaseJob, EventStream, Work, checked_work
from axonx.components.job.call import Call, stream_call
from axonx.components.job.context import RuntimeContext, copied
from axonx.components.job.schema import AGENT_DEPTH, MAX_AGENT_DEPTH
from axonx.components.registry import provider
from axonx.config import BackendConfig
from axonx.core.construction import construct
from axonx.errors import ConfigurationError, InvalidProviderError
from axonx.steps.base import BaseStep


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one Step of each call is built from."""

    entry: str
    cls: type[BaseStep]
    backend: str
    options: Mapping[str, Any]

    def build(self, job: PipelineJob) -> BaseStep:
        """A new instance with its own copy of the options."""
        options = copied(self.options) if self.options else {}
        return self.cls(name=self.backend, backend=self.backend, app_context=job.app_context, **options)


@provider("pipeline")
class PipelineJob(BaseJob):
    """Runs its Steps in order; each call gets new Steps, one context and one response.

    `defaults` reach the context below the caller's arguments. A Step that fails or sets
    `self.response.success = False` ends the call.
    """

    def __init__(
        self,
        *,
        steps: Sequence[BackendConfig | Mapping[str, Any]] = (),
        defaults: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._defaults = copied(dict(defaults or {}))
        self._plans = tuple(self._plan(index, step) for index, step in enumerate(steps))
        self._injected = self._collect_injected()
        # A subclass with a stream of its own is supervised like any other Job.
        self._has_own_stream = type(self).stream is not PipelineJob.stream

    def stream(self, arguments: Any, system: Mapping[str, Any] | None = None) -> EventStream:
        """Check the arguments, then yield the call's events and its ResultEvent."""
        return stream_call(self, checked_work(self, arguments, system, self._step_work))

    def _injected_parameters(self) -> Mapping[str, Mapping[str, Any]]:
        return self._injected

    def _work(self, arguments: dict[str, Any], system: dict[str, Any]) -> Work:
        if self._has_own_stream:
            return super()._work(arguments, system)
        return self._step_work(arguments, system)

    def _step_work(self, arguments: dict[str, Any], system: dict[str, Any]) -> Work:
        return partial(self._run_steps, RuntimeContext.merge(self._defaults, arguments, system))

    async def _run_steps(self, context: RuntimeContext, call: Call) -> None:
        if AGENT_DEPTH in self._injected and context.get(AGENT_DEPTH, 0) >= MAX_AGENT_DEPTH:
            call.response.success = False
            call.response.answer = f"Agent call chain is limited to {MAX_AGENT_DEPTH} nested turns."
            return
        for plan in self._plans:
            call.step = plan.entry
            step = plan.build(self)
            step._bind(context, call.response, call.sink)
            execution = step.execute()
            if not hasattr(execution, "__await__"):
                raise TypeError(f"{plan.cls.__qualname__}.execute must be 'async def'")
            await execution
            call.response = step.response
            if call.stopped is not None or not call.response.success:
                return

    def _plan(self, index: int, step: BackendConfig | Mapping[str, Any]) -> StepPlan:
        config = step if isinstance(step, BackendConfig) else BackendConfig.model_validate(step)
        entry = f"jobs.{self.name}.steps.{index} ({config.backend})"
        if self.app_context is None:
            raise ConfigurationError(f"{entry}: a PipelineJob finds its Steps through an application")
        cls = self.app_context.registry.get(BaseStep.component_type, config.backend)
        if not issubclass(cls, BaseStep):
            raise InvalidProviderError(f"Provider step:{config.backend} must subclass BaseStep")
        plan = StepPlan(entry, cls, config.backend, copied(config.options))
        # Built once and dropped, so that a wrong option is found when the Job is built.
        construct(cls, entry, plan.options, lambda: plan.build(self))
        return plan

    def _collect_injected(self) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for plan in self._plans:
            for name, schema in plan.cls.injected_parameters.items():
                if found.setdefault(name, schema) != schema:
                    raise ConfigurationError(
                        f"Job {self.name!r}: Conflicting injected Job parameter: {name!r}"
                    )
        return found
