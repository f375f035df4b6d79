"""A person at the web page: a real browser, and short words for what people do there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = "needs Chromium and its driver: apt-get install chromium chromium-driver"

WAIT_SECONDS = 30.0
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1200,800",
)  # fmt: skip


class Person:
    """Whoever sits before the browser, and where their pictures go."""

    def __init__(self, driver: webdriver.Chrome, pictures: Path) -> None:
        self.driver = driver
        self._pictures = pictures

    def open(self, url: str) -> None:
        self.driver.get(url)

    def picture(self, name: str) -> None:
        """Keep what is on the screen."""
        self._pictures.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(self._pictures / f"{name}.png"))

    def see(self, selector: str, text: str = "", *, seconds: float = WAIT_SECONDS) -> WebElement:
        """Wait for an element that shows `text`."""
        return self._until(lambda: self._find(selector, text), f"no {selector!r} with {text!r}", seconds)

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def press(self, name: str, *, within: str = "body") -> None:
        """Click the button with this name; the page may put another one in its place meanwhile."""
        selector = f"{within} button:not(:disabled)"

        def press() -> bool:
            found = self._find(selector, name)
            if found is not None:
                found.click()
            return found is not None

        self._until(press, f"no {selector!r} with {name!r}", WAIT_SECONDS)

    def say(self, text: str) -> None:
        """Write a message and send it."""
        self.see("#message").send_keys(text + Keys.ENTER)

    def keys(self, *keys: str) -> None:
        """Type into whatever has the focus."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def tab_to(self, name: str, *, backwards: bool = False) -> None:
        """Move the focus to the control with this name, with the tab key alone."""
        seen = []
        for _ in range(40):
            seen.append(self._focused_name())
            if seen[-1] == name:
                return
            step = Keys.SHIFT + Keys.TAB if backwards else Keys.TAB
            webdriver.ActionChains(self.driver).send_keys(step).perform()
        raise AssertionError(f"the tab key never comes to {name!r}, but to {seen}")

    def all_text(self) -> str:
        return str(self.driver.execute_script("return document.body.innerText"))

    def errors(self) -> list[str]:
        """What the console got as errors since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def _find(self, selector: str, text: str) -> WebElement | None:
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return next((one for one in found if text in str(one.get_property("textContent"))), None)

    def _until(self, look: Callable[[], T], missing: str, seconds: float) -> Any:
        """What `look` comes to; an element that the page has replaced is looked for again."""
        waiting = WebDriverWait(
            self.driver, seconds, poll_frequency=0.1, ignored_exceptions=[StaleElementReferenceException]
        )
        try:
            return waiting.until(lambda _: look())
        except TimeoutException:
            raise AssertionError(f"there is {missing}; the page says:\n{self.all_text()}") from None

    def _focused_name(self) -> str:
        return (
            str(
                self.driver.execute_script(
                    "const e = document.activeElement;"
                    "if (e === document.body) return '';"
                    "return e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.textContent || '';"
                )
            )
            .strip()
            .partition("\n")[0]
        )


@contextmanager
def open_browser(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser with nothing in it yet."""
    assert CHROMIUM and DRIVER, MISSING
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(DRIVER, log_output=os.devnull)
    driver = webdriver.Chrome(options, service)
    try:
        yield driver
    finally:
        driver.quit()
