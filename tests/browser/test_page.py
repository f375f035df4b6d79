"""The web page in a real browser, in front of a real Gateway."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from support.browser import Person
from support.gated_model import gate_of, gated_gateway
from support.gateway_process import GatewayProcess
from support.gateways import ASKING
from support.hosts import delegation
from support.ports import free_port

LONG = " ".join(f"word{number}" for number in range(60))
HELD_WORDS = ["word30", "Result"]
HTTP_SECONDS = 30
PASSWORD = "correct horse battery"


def _handed_over(prompt: str, call_id: str, description: str) -> dict[str, Any]:
    call = delegation(prompt, call_id)
    return {**call, "args": {**call["args"], "description": description}}


RULES = [
    {
        "when": "^delegate",
        "turns": [
            {
                "text": "Two helpers begin.",
                "tool_calls": [
                    _handed_over("part one", "call-1", "Rivers"),
                    _handed_over("part two", "call-2", "Lakes"),
                ],
            },
            {"text": "| a | b |\n|---|---|\n| **rivers** | lakes |"},
        ],
    },
    {
        "when": "^part",
        "turns": [
            {"tool_calls": [{"name": "ls", "args": {"path": "."}, "id": "ls-1"}]},
            {"text": "Result of {prompt}"},
        ],
    },
    ASKING,
    {"when": "^fail", "turns": [{"error": "the model broke"}]},
    {"when": "^long", "turns": [{"text": LONG}]},
    {"when": "", "turns": [{"text": "echo: {prompt}"}]},
]


def _serving(folder: Path, **options: Any) -> AbstractContextManager[GatewayProcess]:
    return gated_gateway(folder, RULES, HELD_WORDS, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[GatewayProcess]:
    with _serving(folder) as gateway:
        yield gateway


@pytest.fixture
def gate(folder: Path) -> Iterator[Path]:
    """The gate of the model, open; a test that wants answers and helpers to wait removes it."""
    gate_of(folder).touch()
    yield gate_of(folder)
    gate_of(folder).touch()


@pytest.fixture
def served(person: Person, process: GatewayProcess, gate: Path) -> Iterator[GatewayProcess]:
    """A Gateway without users and without threads, its page open."""
    person.open(f"{process.url}/")
    person.see("h1", "New conversation")
    yield process
    ids = [thread["thread_id"] for thread in _threads(process, limit=100)]
    url = f"{process.url}/threads/prune"
    assert httpx.post(url, json={"thread_ids": ids}, timeout=HTTP_SECONDS).status_code == 200


def _threads(gateway: GatewayProcess, **query: Any) -> Any:
    return httpx.post(f"{gateway.url}/threads/search", json=query, timeout=HTTP_SECONDS).json()


def _get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=HTTP_SECONDS)


def _done(person: Person) -> None:
    person.see("[role=status]", "The answer is complete.")
    person.see(".composer button", "Send")


def _said(gateway: GatewayProcess) -> list[str]:
    """The texts of the only thread's messages, as the server has them."""
    (thread,) = _threads(gateway)
    return [str(message["content"]) for message in thread["values"]["messages"]]


def test_run_with_two_delegations_is_followed_live(
    person: Person, served: GatewayProcess, gate: Path
) -> None:
    gate.unlink()
    person.say("delegate this")
    person.see(".human", "delegate this")
    person.see(".card.running .title", "Rivers")
    person.see(".card.running .latest", "ls:")
    person.picture("delegations-live")
    assert person.count(".card") == 2
    gate.touch()
    _done(person)
    person.see(".prose td strong", "rivers")
    assert person.count(".card.completed") == 2
    person.picture("delegations-done")
    person.see("nav a[aria-current=page] .title", "delegate this")
    assert person.driver.title == "delegate this · deerflow"
    assert person.errors() == []
    person.driver.refresh()
    person.see(".card.completed summary", "Result").click()
    person.see(".card details[open] .prose", "Result of part one")
    assert person.count(".card.completed") == 2
    assert person.errors() == []


def test_answer_comes_word_by_word_and_is_followed_after_reloading(
    person: Person, served: GatewayProcess, gate: Path
) -> None:
    gate.unlink()
    person.say("long")
    person.see(".ai", "word29")
    assert "word30" not in person.see(".ai").text
    person.driver.refresh()
    person.see(".ai", "word29")
    gate.touch()
    person.see(".ai", "word59")
    _done(person)
    assert person.see(".ai").text == LONG
    assert person.errors() == []


def test_tool_call_waits_for_approval_and_can_be_edited_and_rejected(
    person: Person, served: GatewayProcess
) -> None:
    person.see(".choice input").click()
    person.say("ask one")
    person.see(".approval", "write_file")
    person.see("nav .mark", "waits for you")
    person.picture("approval")
    person.driver.refresh()  # it waits, also for those who come back
    person.press("Approve", within=".approval")
    person.see(".ai .prose", "created 'a.txt'")
    _done(person)
    person.say("ask two")
    person.press("Edit", within=".approval")
    arguments = person.see(".approval textarea")
    arguments.clear()
    arguments.send_keys("{")
    person.press("Approve the edited call")
    person.see(".approval [role=alert]", "These are no arguments")
    arguments.send_keys('"path": "b.txt", "content": "edited"}')
    person.press("Approve the edited call")
    person.see(".ai .prose", "created 'b.txt'")
    _done(person)
    person.say("ask three")
    person.press("Reject", within=".approval")
    person.see(".approval input").send_keys("not today")
    person.press("Reject the call")
    person.see(".ai .prose", "not today")
    assert person.count(".approval") == 0
    (thread,) = _threads(served)
    files = f"{served.url}/threads/{thread['thread_id']}/files"
    assert [file["path"] for file in _get(files).json()["files"]] == ["a.txt", "b.txt"]
    assert _get(f"{files}/b.txt").text == "edited"
    assert person.errors() == []


def test_stop_ends_the_run(person: Person, served: GatewayProcess, gate: Path) -> None:
    gate.unlink()
    person.say("long")
    person.see(".ai", "word29")
    person.press("Stop")
    person.see("[role=status]", "Stopped.")
    assert "word30" not in person.see(".ai").text
    (thread,) = _threads(served)
    (run,) = _get(f"{served.url}/threads/{thread['thread_id']}/runs").json()
    assert run["status"] == "interrupted"
    person.say("hello")
    person.see(".ai", "echo: hello")
    assert person.errors() == []


def test_failure_is_shown_as_it_is_also_after_reloading(person: Person, served: GatewayProcess) -> None:
    person.say("fail")
    person.see(".foot [role=alert]", "the model broke")
    person.picture("failure")
    person.driver.refresh()
    person.see(".foot [role=alert]", "the model broke")
    person.say("hello")
    person.see(".ai", "echo: hello")
    assert not person.see(".foot [role=alert]").is_displayed()


def test_files_are_uploaded_listed_downloaded_and_deleted(
    person: Person, served: GatewayProcess, tmp_path: Path
) -> None:
    chosen = tmp_path / "näme #1.txt"
    chosen.write_text("from this machine")
    person.say("hello")
    _done(person)
    person.press("Files")
    for _ in range(2):
        person.see("#files input[type=file]").send_keys(str(chosen))
        person.see("#files .progress", "is uploaded")
        person.driver.execute_script("document.querySelector('#files .progress').textContent = ''")
    person.see("#files li", "näme #1 (2).txt")
    person.picture("files")
    for link in person.driver.find_elements(By.CSS_SELECTOR, "#files li a"):
        assert _get(str(link.get_attribute("href"))).text == "from this machine"
        assert link.get_attribute("download").endswith(".txt")
    person.see("#files li button").click()
    person.driver.switch_to.alert.accept()
    person.see("#files ul", "näme #1.txt")
    assert person.errors() == []


def test_conversations_are_found_and_searched(person: Person, served: GatewayProcess) -> None:
    for text in ("apples", "pears"):
        person.press("New conversation")
        person.say(f"hello {text}")
        person.see(".ai", f"echo: hello {text}")
        person.see("nav .title", text)
    person.see("input[type=search]").send_keys("APPL")
    assert [title.text for title in person.driver.find_elements(By.CSS_SELECTOR, "nav .title")] == [
        "hello apples"
    ]
    person.see("nav a", "apples").click()
    person.see(".ai", "echo: hello apples")
    person.driver.back()
    person.see(".ai", "echo: hello pears")
    assert person.errors() == []


def test_stream_goes_on_after_the_server_was_restarted(person: Person, tmp_path: Path) -> None:
    port = free_port()
    with _serving(tmp_path, port=port) as gateway:
        person.open(f"{gateway.url}/ui/")
        person.say("long")
        person.see(".ai", "word29")
        gateway.process.kill()
        gateway.process.wait()
    person.see("[role=status].lost", "The server does not answer")
    person.picture("server-gone")
    gate_of(tmp_path).touch()
    with _serving(tmp_path, port=port) as gateway:
        person.see(".ai", "word59", seconds=60)
        person.see("[role=status]:not(.lost)")
        assert person.see(".ai").text == LONG
        assert person.count(".ai") == 1
        assert _said(gateway) == ["long", LONG]
        person.say("hello")
        person.see(".ai", "echo: hello")
        person.picture("server-back")
        assert [
            e for e in person.errors() if not re.search("net::ERR_|network error|Unable to connect", e)
        ] == []


def test_everything_can_be_done_by_keyboard(person: Person, served: GatewayProcess) -> None:
    person.tab_to("Skip to the message box")
    person.keys(Keys.ENTER)
    person.tab_to("Message")
    person.keys("ask")
    person.tab_to("Ask me before files are changed")
    person.keys(Keys.SPACE)
    person.tab_to("Message", backwards=True)
    person.keys(Keys.ENTER)
    person.see(".approval")
    person.tab_to("Edit", backwards=True)
    person.keys(Keys.ENTER)
    person.tab_to("Arguments")
    person.tab_to("Back")
    person.keys(Keys.ENTER)
    person.tab_to("Approve")
    person.keys(Keys.ENTER)
    person.see(".ai .prose", "created")
    _done(person)
    person.tab_to("Message")
    person.keys(Keys.SHIFT + Keys.ENTER + Keys.NULL, "x")
    assert person.see("#message").get_property("value") == "\nx"
    person.tab_to("Files", backwards=True)
    person.keys(Keys.ENTER)
    person.see("#files a", "a.txt")
    person.tab_to("Close")
    person.keys(Keys.ENTER)
    person.tab_to("Files")
    person.tab_to("ask", backwards=True)
    assert person.errors() == []


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 400), ("dark", 400)]
)
def test_page_suits_screens_and_schemes(
    person: Person, served: GatewayProcess, scheme: str, width: int
) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    person.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    person.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        person.say("delegate this")
        _done(person)
        person.picture(f"{scheme}-{width}")
        script = "return getComputedStyle(document.body).backgroundColor"
        red = int(re.findall(r"\d+", str(person.driver.execute_script(script)))[0])
        assert (red < 60) == (scheme == "dark")
        script = "return document.documentElement.scrollWidth"
        assert int(str(person.driver.execute_script(script))) <= width
        if width == 400:
            person.press("Conversations")
            person.see("nav a", "delegate").click()
            assert not person.see("nav a").is_displayed()
            person.press("Files")
            person.press("Close", within="#files")
    finally:
        person.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        person.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert person.errors() == []


def _add_user(folder: Path, name: str) -> None:
    deerflow = str(Path(sys.executable).with_name("deerflow"))
    subprocess.run(
        [deerflow, "users", "add", name, "--password"],
        cwd=folder, input=PASSWORD, text=True, check=True, capture_output=True, timeout=120,
    )  # fmt: skip


def test_users_sign_in_and_a_strangers_thread_is_refused(person: Person, tmp_path: Path) -> None:
    with _serving(tmp_path, auth={"mode": "users"}) as gateway:
        for name in ("alice", "bob"):
            _add_user(tmp_path, name)
        person.open(f"{gateway.url}/ui/")
        person.see("h1", "Sign in")
        person.picture("sign-in")
        assert person.errors() == []
        _sign_in(person, "alice", "wrong password")
        person.see("[role=alert]", "wrong username or password")
        _sign_in(person, "alice", PASSWORD)
        person.see(".account", "alice")
        person.say("hello")
        person.see(".ai", "echo: hello")
        _done(person)
        person.see("nav a", "hello")
        alices = person.driver.current_url
        person.press("Sign out")
        person.see("h1", "Sign in")
        _sign_in(person, "bob", PASSWORD)
        person.see(".account", "bob")
        person.see("nav", "Nothing here yet.")
        assert [e for e in person.errors() if "401" not in e] == []
        person.open(alices)
        person.see(".foot [role=alert]", "there is no thread")
        person.picture("strangers-thread")
        assert "echo" not in person.all_text()
        assert [e for e in person.errors() if "404" not in e] == []


def _sign_in(person: Person, name: str, password: str) -> None:
    for field, text in (("username", name), ("password", password)):
        box = person.see(f"input[name={field}]")
        box.clear()
        box.send_keys(text)
    person.press("Sign in")
