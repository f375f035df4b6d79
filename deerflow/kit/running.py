"""What a running Gateway tells of its extensions, read from its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from deerflow.gateway.auth.loopback import is_loopback_name
from deerflow.kit.errors import KitError, WrongUseError

TIMEOUT_SECONDS: Final = 10.0
MOST_BYTES: Final = 16 * 2**20

_SECONDS: Final = "deerflow_extension_hook_seconds"
_FAILURES: Final = "deerflow_extension_hook_failures"


@dataclass(frozen=True)
class HookStatistics:
    """What one hook of one extension has cost since the Gateway started.

    `extension` is the entry point; `seconds` are those of all calls together.
    """

    extension: str
    hook: str
    calls: int
    failures: int
    seconds: float


def read_statistics(url: str, token: str | None = None) -> list[HookStatistics]:
    """The hooks that have run in the Gateway at `url`, the dearest first; empty where none has.

    Raises `WrongUseError` for what is no address of a Gateway, `KitError` where it does not answer, refuses,
    or is something else.
    """
    base = _checked(url)
    if token and not (token.isascii() and token.isprintable()):
        raise WrongUseError("the token has characters that no token has: copy it again, without line ends")
    text = _fetch(base, token)
    hooks = _hooks_in(text)
    return sorted(hooks, key=lambda hook: (-hook.seconds, hook.extension, hook.hook))


def _checked(url: str) -> httpx.URL:
    try:
        base = httpx.URL(url)
    except httpx.InvalidURL:
        base = httpx.URL("")
    if base.scheme not in ("http", "https") or not base.host:
        raise WrongUseError("the address of a Gateway is needed, such as http://127.0.0.1:8001")
    if base.userinfo:
        raise WrongUseError("a Gateway's address has no user name and no password; give a token instead")
    return base


def _fetch(base: httpx.URL, token: str | None) -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    path = f"{base.path.rstrip('/')}/metrics"
    try:
        # A proxy of the environment does not know this machine's own addresses.
        with httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=not is_loopback_name(base.host)) as client:
            with client.stream("GET", base.copy_with(path=path, query=None), headers=headers) as response:
                _check(response, base, has_token=bool(token))
                return _text_of(response, base)
    except httpx.TimeoutException:
        raise KitError(f"the Gateway at {base} does not answer within {TIMEOUT_SECONDS:g} s") from None
    except httpx.TransportError as error:
        raise KitError(f"no Gateway answers at {base} ({error}); start it, or name its --url") from None


def _check(response: httpx.Response, base: httpx.URL, *, has_token: bool) -> None:
    status = response.status_code
    if status == httpx.codes.UNAUTHORIZED:
        given = "knows no such token" if has_token else "has to know who asks"
        raise KitError(
            f"the Gateway at {base} {given}; give an administrator's as DEER_FLOW_TOKEN, "
            "from: deerflow users add NAME --admin --admin-token"
        )
    if status == httpx.codes.FORBIDDEN:
        raise KitError(
            f"the Gateway at {base} refuses: its numbers are the administrators'; "
            "get a token from: deerflow users add NAME --admin --admin-token"
        )
    if status != httpx.codes.OK:
        raise KitError(f"what answers at {base} has no metrics (status {status}); name a Gateway as --url")


def _text_of(response: httpx.Response, base: httpx.URL) -> str:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MOST_BYTES:
            raise KitError(f"what answers at {base} sends more than any Gateway has to tell")
    return body.decode("utf-8", "replace")


def _hooks_in(text: str) -> Iterator[HookStatistics]:
    samples = _samples_in(text)
    for (name, extension, hook), calls in samples.items():
        if name == f"{_SECONDS}_count":
            seconds = samples.get((f"{_SECONDS}_sum", extension, hook), 0.0)
            failures = samples.get((f"{_FAILURES}_total", extension, hook), 0.0)
            yield HookStatistics(extension, hook, int(calls), int(failures), seconds)


def _samples_in(text: str) -> Mapping[tuple[str, str, str], float]:
    """The samples of extensions' hooks by name, extension and hook."""
    try:
        families = [f for f in text_string_to_metric_families(text) if f.name in (_SECONDS, _FAILURES)]
    except (ValueError, KeyError, IndexError):
        raise KitError(
            "what answers there sends no metrics that can be read; name a Gateway as --url"
        ) from None
    return {
        (sample.name, sample.labels["extension"], sample.labels["hook"]): sample.value
        for family in families
        for sample in family.samples
    }
