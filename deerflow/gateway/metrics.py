"""What operators watch: runs, subagents and the hooks of extensions, as Prometheus reads it.

Each application has a registry of its own. The names are listed in the documentation of the HTTP interface.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from deerflow.extensions.outcomes import HookOutcome
from deerflow.host import Host
from deerflow.runs.active import ActiveRun

_RUN_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800)
_HOOK_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 3, 10)


class Metrics:
    """The numbers of one application."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._runs = Counter(
            "deerflow_runs", "Runs that ended.", ["status", "stop_reason"], registry=registry
        )
        self._run_seconds = Histogram(
            "deerflow_run_duration_seconds", "From the beginning of a run to its end.",
            ["status"], buckets=_RUN_SECONDS, registry=registry,
        )  # fmt: skip
        self._wait_seconds = Histogram(
            "deerflow_run_wait_seconds", "From a run's request to its beginning, wanted delays left out.",
            buckets=_RUN_SECONDS, registry=registry,
        )  # fmt: skip
        self._token_seconds = Histogram(
            "deerflow_run_first_token_seconds", "From the beginning of a run to its first streamed token.",
            buckets=_RUN_SECONDS, registry=registry,
        )  # fmt: skip
        self._tokens = Counter("deerflow_run_tokens", "Tokens of runs.", ["kind"], registry=registry)
        self._subagents = Counter(
            "deerflow_subagents", "Subagents that ended.", ["status"], registry=registry
        )
        self._hook_seconds = Histogram(
            "deerflow_extension_hook_seconds", "What the hooks of extensions took.",
            ["extension", "hook"], buckets=_HOOK_SECONDS, registry=registry,
        )  # fmt: skip
        self._hook_failures = Counter(
            "deerflow_extension_hook_failures", "Hooks of extensions that failed.",
            ["extension", "hook"], registry=registry,
        )  # fmt: skip
        self._now = _Now()
        registry.register(self._now)

    def watch(self, host: Host | None) -> None:
        """Tell from now on how many runs and subagents this host has."""
        self._now.host = host

    def count_run(self, run: ActiveRun) -> None:
        """Count a run that has ended, with its subagents."""
        ending, moments, ended_at = run.ending, run.log.first_moments, time.monotonic()
        if ending is None:
            return
        self._runs.labels(ending.status, ending.stop_reason or "").inc()
        began_at = moments.get("metadata")
        if began_at is not None:
            self._run_seconds.labels(ending.status).observe(ended_at - began_at)
            waited_seconds = began_at - run.log.opened_at - run.request.after_seconds
            self._wait_seconds.observe(max(0.0, waited_seconds))
            if "messages" in moments:
                self._token_seconds.observe(moments["messages"] - began_at)
        if run.scope is not None:
            for kind, tokens in run.scope.usage.as_dict().items():
                self._tokens.labels(kind.removesuffix("_tokens")).inc(tokens)
            for end in run.scope.subagent_ends:
                self._subagents.labels(str(end["type"]).removeprefix("task_")).inc()

    def count_hook(self, outcome: HookOutcome) -> None:
        """Count a hook of an extension that has ended."""
        self._hook_seconds.labels(outcome.source, outcome.hook).observe(outcome.seconds)
        if outcome.failed:
            self._hook_failures.labels(outcome.source, outcome.hook).inc()

    def exposition(self) -> bytes:
        """All numbers, in the text form of Prometheus."""
        return generate_latest(self._registry)


class _Now(Collector):
    """What is the case at the moment of asking."""

    host: Host | None = None

    def collect(self) -> Iterator[Metric]:
        host = self.host
        runs = GaugeMetricFamily("deerflow_runs_active", "Runs that have not ended.", labels=["state"])
        subagents = GaugeMetricFamily(
            "deerflow_subagents_active", "Subagents that have not ended.", labels=["state"]
        )
        active = [] if host is None else host.runs.active()
        running = sum("metadata" in run.log.first_moments for run in active)
        runs.add_metric(["waiting"], len(active) - running)
        runs.add_metric(["running"], running)
        subagents.add_metric(["queued"], 0 if host is None else host.assembler.capacity.queued)
        subagents.add_metric(["running"], 0 if host is None else host.assembler.capacity.running)
        accepting = GaugeMetricFamily("deerflow_accepting_runs", "Whether new runs are taken.")
        accepting.add_metric([], host is not None and host.runs.accepting)
        redis = GaugeMetricFamily("deerflow_redis_answers", "Whether Redis did what it was asked last.")
        if host is not None and host.runs.relay_answers is not None:
            redis.add_metric([], host.runs.relay_answers)
        return iter((runs, subagents, accepting, redis))
