"""One browser for all tests of the page; each test has a Gateway of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from support.browser import CHROMIUM, DRIVER, MISSING, Person, open_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip(MISSING)
    with open_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def person(browser: webdriver.Chrome, tmp_path: Path) -> Iterator[Person]:
    """Someone at a browser without cookies. The pictures go to $SCREENSHOTS, or to the test's own folder."""
    browser.delete_all_cookies()
    browser.set_window_size(1200, 800)
    person = Person(browser, Path(os.environ.get("SCREENSHOTS") or tmp_path / "screenshots"))
    person.errors()
    yield person
    browser.execute_script("localStorage.clear()")
    browser.get("about:blank")
