"""Which addresses webhooks may have, and what their names lead to."""

from __future__ import annotations

import pytest
from support.receiver import answering

from deerflow.config.webhooks import WebhooksConfig
from deerflow.errors import InvalidRequestError
from deerflow.gateway.webhooks import addresses as webhook_addresses
from deerflow.gateway.webhooks.addresses import WebhookRefusedError, check_webhook, resolve

ALLOWED = WebhooksConfig(
    allow=("https://hooks.example.com", "https://*.example.org", "http://10.0.0.1:8080", "https://[fd00::1]")
)


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com",
        "https://HOOKS.example.com:443/path?a=1",
        "https://a.example.org/",
        "https://a.b.example.org/",
        "http://10.0.0.1:8080/x",
        "https://[fd00::1]/x",
    ],
)
def test_allowed_urls(url: str) -> None:
    check_webhook(url, ALLOWED)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com",
        "/relative",
        "ftp://hooks.example.com",
        "file:///etc/passwd",
        "http://hooks.example.com",
        "https://hooks.example.com:8443",
        "https://hooks.example.com.evil.net",
        "https://evilhooks.example.com",
        "https://example.org",
        "https://a..example.org",
        f"https://{'a' * 64}.example.org",
        "https://evilexample.org",
        "https://user:password@hooks.example.com",
        "https://hooks.example.com@evil.net",
        "https://hooks.example.com\\@evil.net",
        "https://hooks.example.com\n.evil.net",
        "https://hooks.example.com ",
        "https://hooks.example.com:0",
        "https://hooks.example.com:99999",
        "https://hooks.exa\u043cple.com",
        "https://[::1",
        "http://167772161:8080/x",
        "http://10.1:8080/x",
        "https://hooks.example.com/" + "x" * 3000,
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^webhook: "):
        check_webhook(url, ALLOWED)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"], ["10.0.0.1"], ["169.254.169.254"], ["192.168.1.1"], ["0.0.0.0"], ["100.64.0.1"],
        ["224.0.0.1"], ["::1"], ["fd00::1"], ["fe80::1%eth0"], ["::ffff:127.0.0.1"],
        ["93.184.216.34", "127.0.0.1"], ["2002:7f00:1::"],
    ],
)  # fmt: skip
async def test_names_that_lead_to_private_addresses_are_refused(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_addresses.socket, "getaddrinfo", answering(*addresses))
    with pytest.raises(WebhookRefusedError, match=r"webhooks\.private_addresses"):
        await resolve("https://hooks.example.com/x", ALLOWED)
    leave = ALLOWED.model_copy(update={"private_addresses": True})
    assert len(await resolve("https://hooks.example.com/x", leave)) == len(addresses)


async def test_name_is_asked_for_once_and_its_address_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    names = answering("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946")
    monkeypatch.setattr(webhook_addresses.socket, "getaddrinfo", names)
    first, second = await resolve("https://hooks.example.com/x?y=1", ALLOWED)
    assert (first.url, first.host_header) == ("https://93.184.216.34:443/x?y=1", "hooks.example.com")
    assert second.url == "https://[2606:2800:220:1:248:1893:25c8:1946]:443/x?y=1"
    with pytest.raises(WebhookRefusedError, match=r"webhooks\.allow"):
        await resolve("https://elsewhere.example.net/", ALLOWED)


@pytest.mark.parametrize("origin", ["hooks.example.com", "https://a.b/path", "https://*", "ftp://a.b", "*"])
def test_operator_names_origins(origin: str) -> None:
    with pytest.raises(ValueError, match="origins such as"):
        WebhooksConfig(allow=(origin,))
