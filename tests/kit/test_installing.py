"""Extensions come and go as a whole, with the pip or uv that the environment has."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from support.environments import INSTALLERS, ThrowAway, build_wheel, throw_away, write_distribution
from support.git_server import commit_all, served

CONFIG = "# mine\nmy.key: 1\nplugins:\n  - use: nonsense\n    requierd: true\n# the end\n"
RECORD = "  - name: acme-audit\n    use: acme_audit:install\n    package: acme-audit\n"


@pytest.fixture(params=INSTALLERS)
def either(request: pytest.FixtureRequest, tmp_path: Path) -> ThrowAway:
    """An environment of pip's, and one of uv's."""
    return throw_away(tmp_path, request.param)


@pytest.fixture
def quick(tmp_path: Path) -> ThrowAway:
    """An environment of the quicker of the two."""
    return throw_away(tmp_path, "uv")


def _version(environment: ThrowAway) -> str:
    return environment.run("-c", "import acme_audit; print(acme_audit.VERSION)").stdout.strip()


def _state(environment: ThrowAway) -> set[str]:
    folder = environment.work / ".deer-flow" / "extensions"
    kept = (path for path in folder.rglob("*") if path.name not in (".lock", "installer.log"))
    return {str(path.relative_to(folder)) for path in kept if path.is_file()}


def test_a_folder_is_installed_upgraded_and_removed_without_a_trace(
    either: ThrowAway, tmp_path: Path
) -> None:
    config, before = either.work / "config.yaml", either.site()
    config.write_text(CONFIG)
    source = write_distribution(tmp_path / "source", "acme-audit")
    said = either.extensions("install", str(source), "--yes")
    assert said == "installed acme-audit 1.0 (acme_audit:install); restart the host\n"
    assert config.read_text() == CONFIG.replace("    requierd: true\n", f"    requierd: true\n{RECORD}")
    assert _version(either) == "1.0"
    (copy,) = {name.split("/")[1] for name in _state(either)} - {"installed.json"}

    write_distribution(source, "acme-audit", version="2.0")
    assert either.extensions("upgrade", "acme-audit", "--yes").startswith(
        "upgraded acme-audit from 1.0 to 2.0"
    )
    assert _version(either) == "2.0"
    assert not (either.work / ".deer-flow/extensions/acme-audit" / copy).exists()

    assert either.extensions("remove", "acme-audit") == "removed acme-audit; restart the host\n"
    assert config.read_text() == CONFIG
    assert (either.site(), _state(either)) == (before, set())


@pytest.mark.parametrize(
    ("installer", "change", "problem"),
    [
        ("uv", {"entry_point": False}, "declares no entry point"),
        ("uv", {"install": "raise ValueError('set limit first')"}, "install() failed: set limit first"),
        ("uv", {"requires": '"a-package-that-nobody-has"'}, "a-package-that-nobody-has"),
        ("uv", {"requires": '"click<1"'}, "click"),
        ("pip", {"requires": '"click<1"'}, "click<1"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_installation_that_fails_leaves_everything_as_it_was(
    tmp_path: Path, installer: str, change: dict[str, str], problem: str
) -> None:
    either = throw_away(tmp_path, installer)
    config, before = either.work / "config.yaml", either.site()
    config.write_text(CONFIG)
    source = write_distribution(tmp_path / "source", "acme-audit", **change)
    assert problem in either.refused("install", str(source), "--yes")
    assert config.read_text() == CONFIG
    assert (either.site(), _state(either)) == (before, set())


def test_an_upgrade_that_fails_leaves_the_version_before(quick: ThrowAway, tmp_path: Path) -> None:
    source = write_distribution(tmp_path / "source", "acme-audit")
    quick.extensions("install", str(source), "--yes")
    config, before, state = (quick.work / "config.yaml").read_text(), quick.site(), _state(quick)
    write_distribution(source, "acme-audit", version="2.0", install="raise ValueError('broken')")
    assert "install() failed: broken" in quick.refused("upgrade", "acme-audit", "--yes")
    assert _version(quick) == "1.0"
    assert (quick.work / "config.yaml").read_text() == config
    assert (quick.site(), _state(quick)) == (before, state)
    assert "acme-audit  enabled  acme_audit:install  acme-audit 1.0" in quick.extensions("list")


def test_a_package_is_installed_from_the_index_that_the_installer_knows(
    quick: ThrowAway, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    for version in ("1.0", "2.0"):
        build_wheel(write_distribution(tmp_path / "source", "acme-audit", version=version), index)
    places = {"PIP_FIND_LINKS": str(index), "UV_FIND_LINKS": str(index)}
    quick.extensions("install", "acme-audit<2", "--yes", **places)
    assert _version(quick) == "1.0"
    assert "is at the newest state" in quick.extensions("upgrade", "acme-audit", "--yes", **places)
    quick.extensions("upgrade", "acme-audit", "--from", "acme-audit", "--yes", **places)
    assert _version(quick) == "2.0"
    assert quick.extensions("list").splitlines()[1].endswith("acme-audit 2.0  acme-audit")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    root = tmp_path / "served"
    folder = write_distribution(root / "audit.git", "acme-audit")
    with served(root, tmp_path / "ca.pem") as address:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "ca.pem"))
        yield f"{address}/audit.git", folder


def test_a_repository_is_installed_and_followed(quick: ThrowAway, repository: tuple[str, Path]) -> None:
    url, folder = repository
    first = commit_all(folder, "one")
    quick.extensions("install", url, "--yes")
    receipt = quick.work / ".deer-flow/extensions/acme-audit/installed.json"
    assert first in receipt.read_text() and url in receipt.read_text()
    assert "is at the newest state" in quick.extensions("upgrade", "acme-audit", "--yes")
    write_distribution(folder, "acme-audit", version="2.0")
    second = commit_all(folder, "two")
    assert "from 1.0 to 2.0" in quick.extensions("upgrade", "acme-audit", "--yes")
    assert second in receipt.read_text()


def test_nobody_is_asked_where_nobody_is(quick: ThrowAway, tmp_path: Path) -> None:
    source = write_distribution(tmp_path / "source", "acme-audit")
    assert "say --yes if you trust it" in quick.refused("install", str(source), status=2)
    assert quick.site() == {"host.pth"} and not (quick.work / "config.yaml").exists()


def test_a_configuration_that_cannot_be_edited_is_seen_before_anything_is_installed(
    quick: ThrowAway, tmp_path: Path
) -> None:
    text = "plugins: []\nplugins: []\n"
    (quick.work / "config.yaml").write_text(text)
    source = write_distribution(tmp_path / "source", "acme-audit")
    assert "plugins stands 2 times" in quick.refused("install", str(source), "--yes")
    assert quick.site() == {"host.pth"} and (quick.work / "config.yaml").read_text() == text


def test_what_a_person_saves_during_an_installation_is_kept(quick: ThrowAway, tmp_path: Path) -> None:
    config = quick.work / "config.yaml"
    config.write_text("a: 1\n")
    saving = f"open({str(config)!r}, 'w').write('theirs: 1\\n'); registry.service(Service())"
    source = write_distribution(tmp_path / "source", "acme-audit", install=saving)
    quick.extensions("install", str(source), "--yes")
    assert config.read_text() == f"theirs: 1\nplugins:\n{RECORD}"


def test_an_installation_that_a_person_spoils_is_taken_back(quick: ThrowAway, tmp_path: Path) -> None:
    config = quick.work / "config.yaml"
    spoiling = f"open({str(config)!r}, 'w').write('plugins: text\\n'); registry.service(Service())"
    source = write_distribution(tmp_path / "source", "acme-audit", install=spoiling)
    assert "plugins is no list" in quick.refused("install", str(source), "--yes")
    assert config.read_text() == "plugins: text\n"
    assert (quick.site(), _state(quick)) == ({"host.pth"}, set())


def test_one_that_needs_configuration_is_installed_disabled(quick: ThrowAway, tmp_path: Path) -> None:
    refusing = "raise ValueError('set limit first')"
    source = write_distribution(tmp_path / "source", "acme-audit", install=refusing, entry_point=False)
    said = quick.extensions("install", str(source), "--yes", "--disabled", "--use", "acme_audit:install")
    assert said.endswith("write its config, then: deerflow extensions enable acme-audit\n")
    assert (quick.work / "config.yaml").read_text() == f"plugins:\n{RECORD}    enabled: false\n"
    assert "has a record already" in quick.refused("install", str(source), "--yes", status=2)
    assert quick.extensions("enable", "acme-audit") == "enabled acme-audit; restart the host\n"
    assert quick.extensions("enable", "acme-audit") == "acme-audit is enabled already\n"
    assert (quick.work / "config.yaml").read_text() == f"plugins:\n{RECORD}    enabled: true\n"
    quick.refused("check")


def test_an_entry_point_that_has_a_record_gets_no_second_one(quick: ThrowAway, tmp_path: Path) -> None:
    text = "plugins:\n- {use: 'acme_audit:install', name: mine}\n"
    (quick.work / "config.yaml").write_text(text)
    source = write_distribution(tmp_path / "source", "acme-audit")
    line = quick.refused("install", str(source), "--yes", status=2)
    assert line.endswith("upgrade that one: deerflow extensions upgrade mine")
    assert (quick.site(), _state(quick)) == ({"host.pth"}, set())
    assert (quick.work / "config.yaml").read_text() == text


def test_what_was_not_installed_by_command_is_listed_and_stays(quick: ThrowAway, tmp_path: Path) -> None:
    config = quick.work / "config.yaml"
    config.write_text("plugins:\n- {use: 'deerflow.cli:main', package: deerflow, name: own}\n")
    assert "source is not known" in quick.refused("upgrade", "own", "--yes")
    assert "the package deerflow was not installed by command and stays" in quick.extensions("remove", "own")
    assert config.read_text() == "plugins: []\n"


def test_an_installation_that_is_interrupted_is_taken_back(quick: ThrowAway, tmp_path: Path) -> None:
    reached = tmp_path / "reached"
    hanging = f"open({str(reached)!r}, 'w').close(); import time; time.sleep(90)"
    source = write_distribution(tmp_path / "source", "acme-audit", install=hanging)
    with quick.started("extensions", "install", str(source), "--yes") as process:
        deadline = time.monotonic() + 60
        while not reached.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints.strip()) == (130, "deerflow: stopped")
    assert (quick.site(), _state(quick)) == ({"host.pth"}, set())
    assert not (quick.work / "config.yaml").exists()


def test_two_installations_do_not_mix(quick: ThrowAway, tmp_path: Path) -> None:
    source = write_distribution(tmp_path / "source", "acme-audit")
    folder = quick.work / ".deer-flow" / "extensions"
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"):
        assert "another command is installing" in quick.refused("install", str(source), "--yes")
