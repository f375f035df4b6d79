"""An edit of one plugin changes that record's bytes and no others."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from deerflow.kit.errors import KitError, WrongUseError
from deerflow.kit.plugin_edits import with_appended, with_enabled, without
from deerflow.kit.plugin_records import PluginsText

ODD = """\
# the operator's file
my.key: 1
2fa: {enabled: yes}   # two factors
$schema: "https://example.org/schema"
設定: {言語: 日本語}
models: [{name: m, use: "deerflow.models:ScriptedChatModel"}]

plugins:   # loaded at start
  # the audit
  - name: audit
    use: acme_audit:install   # pinned
    config:
      text: |
        enabled: true
        # no comment

  - {use: "acme_costs:install", enabled: true, config: {a: [1, 2]}}  # costs

  - use: acme_late:install
    enabled: true      # for now
# end of the plugins
  # even this

title: {enabled: false}  # a trailing comment
"""


def switch(text: str, name: str, enabled: bool) -> str:
    plugins = PluginsText(text, "config.yaml")
    return with_enabled(plugins, plugins.find(name), enabled)


def append(text: str, **fields: Any) -> str:
    return with_appended(PluginsText(text, "config.yaml"), fields)


def remove(text: str, name: str) -> str:
    plugins = PluginsText(text, "config.yaml")
    return without(plugins, plugins.find(name))


def test_disabling_adds_one_line_to_the_record() -> None:
    assert switch(ODD, "audit", False) == ODD.replace(
        "  - name: audit\n", "  - name: audit\n    enabled: false\n"
    )


def test_disabling_changes_one_word_in_a_flow_record() -> None:
    new = switch(ODD, "acme_costs:install", False)
    assert new == ODD.replace('"acme_costs:install", enabled: true', '"acme_costs:install", enabled: false')


def test_disabling_keeps_the_comment_behind_the_value() -> None:
    new = switch(ODD, "acme_late:install", False)
    assert new == ODD.replace("enabled: true      # for now", "enabled: false      # for now")
    assert switch(new, "acme_late:install", True) == ODD


def test_what_is_so_already_stays_as_it_is() -> None:
    assert switch(ODD, "acme_late:install", True) == ODD


def test_a_record_is_appended_behind_the_last_one() -> None:
    new = append(ODD, name="new", use="acme_new:install")
    assert new == ODD.replace(
        "    enabled: true      # for now\n",
        "    enabled: true      # for now\n  - name: new\n    use: acme_new:install\n",
    )


def test_a_record_is_removed_with_its_lines_and_nothing_else() -> None:
    begin, end = ODD.index("  - name: audit"), ODD.index("\n  - {use")
    assert remove(ODD, "audit") == ODD[:begin] + ODD[end:]
    assert remove(ODD, "acme_late:install") == ODD.replace(
        "  - use: acme_late:install\n    enabled: true      # for now\n", ""
    )


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_stay(newline: str, mark: str) -> None:
    text = mark + ODD.replace("\n", newline)
    disabled = switch(text, "audit", False)
    assert disabled == mark + switch(ODD, "audit", False).replace("\n", newline)
    appended = append(text, use="a:b")
    assert appended == mark + append(ODD, use="a:b").replace("\n", newline)
    assert remove(appended, "a:b") == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "plugins:\n  - use: a:b\n"),
        ("# only a comment", "# only a comment\nplugins:\n  - use: a:b\n"),
        ("title: {}\n", "title: {}\nplugins:\n  - use: a:b\n"),
        ("title: {}", "title: {}\nplugins:\n  - use: a:b\n"),
        ("title: {}\r\n", "title: {}\r\nplugins:\r\n  - use: a:b\r\n"),
        ("---\ntitle: {}\n", "---\ntitle: {}\nplugins:\n  - use: a:b\n"),
        ("  title: {}\n", "  title: {}\n  plugins:\n    - use: a:b\n"),
        ("plugins:", "plugins:\n  - use: a:b"),
        ("plugins: []\n", "plugins:\n  - use: a:b\n"),
        ("plugins: [ ]  # none\nz: 1\n", "plugins:  # none\n  - use: a:b\nz: 1\n"),
        ("plugins: null\nz: 1\n", "plugins:\n  - use: a:b\nz: 1\n"),
        ("plugins:\n  # - use: later\nz: 1\n", "plugins:\n  - use: a:b\n  # - use: later\nz: 1\n"),
        ("plugins:\n- use: x:y\nz: 1\n", "plugins:\n- use: x:y\n- use: a:b\nz: 1\n"),
        ("plugins:\n- use: x:y", "plugins:\n- use: x:y\n- use: a:b"),
        ("plugins:\n    - use: x:y  # c\n", "plugins:\n    - use: x:y  # c\n    - use: a:b\n"),
        ("plugins: [{use: x:y}]\n", "plugins: [{use: x:y}, {use: a:b}]\n"),
        ("plugins: [\n  # none\n]\n", "plugins: [{use: a:b}\n  # none\n]\n"),
        ('"plugins":\n  - use: x:y\n', '"plugins":\n  - use: x:y\n  - use: a:b\n'),
    ],
)
def test_a_record_is_appended_to_a_list_of_any_form(text: str, expected: str) -> None:
    assert append(text, use="a:b") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plugins:\n  - use: a:b\n", "plugins: []\n"),
        ("plugins:  # mine\n- use: a:b\n  config: {}\nz: 1\n", "plugins: []  # mine\nz: 1\n"),
        ("plugins: [{use: a:b}]\n", "plugins: []\n"),
        ("plugins: [{use: a:b}, {use: c:d}]\n", "plugins: [{use: c:d}]\n"),
        ("plugins: [{use: c:d}, {use: a:b}]\n", "plugins: [{use: c:d}]\n"),
        ("plugins:\n  -\n    use: a:b\n  - use: c:d\n", "plugins:\n  - use: c:d\n"),
        ("plugins:\n  - use: c:d\n  - use: a:b", "plugins:\n  - use: c:d\n"),
        ("plugins:\n  - use: a:b\n    config:\n  - use: c:d\n", "plugins:\n  - use: c:d\n"),
        (
            "plugins:\n  - use: a:b\n    config:\n      x: |+\n        text\n\n  - use: c:d\n",
            "plugins:\n  - use: c:d\n",
        ),
    ],
)
def test_a_record_is_removed_from_a_list_of_any_form(text: str, expected: str) -> None:
    assert remove(text, "a:b") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plugins:\n- use: a:b\n", "plugins:\n- use: a:b\n  enabled: false\n"),
        ("plugins:\n- use: a:b", "plugins:\n- use: a:b\n  enabled: false"),
        ("plugins: [{use: a:b}]\n", "plugins: [{use: a:b, enabled: false}]\n"),
        ("plugins:\n- {use: a:b, enabled: on}\n", "plugins:\n- {use: a:b, enabled: false}\n"),
        ("plugins:\n- enabled:\n  use: a:b\n", "plugins:\n- enabled: false\n  use: a:b\n"),
        ("plugins:\n- enabled: $FLAG\n  use: a:b\n", "plugins:\n- enabled: false\n  use: a:b\n"),
        (
            "plugins:\n- config: &c {x: 1}\n  use: >-\n    a:b\n",
            "plugins:\n- enabled: false\n  config: &c {x: 1}\n  use: >-\n    a:b\n",
        ),
    ],
)
def test_a_record_of_any_form_is_disabled(text: str, expected: str) -> None:
    assert switch(text, "a:b", False) == expected


def test_values_are_quoted_where_yaml_or_the_host_would_read_them_otherwise() -> None:
    text = append("", name="true", use="a:b", package="/home/$USER/#1: it's")
    plugins = PluginsText(text, "")
    assert plugins.records[0].text("name") == "true"
    assert plugins.records[0].text("package") == "/home/$USER/#1: it's"
    assert yaml.safe_load(text)["plugins"][0]["package"] == "/home/$$USER/#1: it's"
    assert plugins.records[0].problem is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("plugins: []\nother: 1\nplugins: []\n", r"plugins stands 2 times \(lines 1, 3\)"),
        ("p: &p []\nplugins: *p\n", "is an alias"),
        ("plugins: {use: a:b}\n", "is no list"),
        ("plugins: text\n", "is no list"),
        ("- a list\n", "no mapping of sections"),
        ("a: [1\n", "line 2, column 1"),
        ("a: 1\n---\nb: 2\n", "correct it first"),
        ("a: \x01\n", "is not valid YAML"),
        ("{title: {}}\n", "one {...} mapping"),
        ("title: {}\n...\n", "edit it by hand"),
    ],
)
def test_what_cannot_be_edited_for_certain_is_refused(text: str, problem: str) -> None:
    with pytest.raises(KitError, match=problem) as refused:
        append(text, use="a:b")
    assert str(refused.value).startswith("config.yaml: ")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "r: &r {use: a:b}\nplugins: [*r]\n",
        "plugins:\n- {use: a:b, enabled: false, enabled: true}\n",
        "plugins:\n- use: a:b\n  enabled: &e true\nz: *e\n",
        "plugins:\n- use: a:b\n  enabled: [true]\n",
        "b: &b {enabled: true}\nplugins:\n- &r\n  use: a:b\n  enabled: true\n- *r\n",
    ],
)
def test_a_record_that_shares_its_values_is_not_switched(text: str) -> None:
    plugins = PluginsText(text, "config.yaml")
    with pytest.raises(KitError):
        with_enabled(plugins, plugins.records[0], False)


def test_a_record_that_another_place_refers_to_is_not_removed() -> None:
    text = "plugins:\n- use: a:b\n  config: &c {x: 1}\n- use: c:d\n  config: *c\n"
    with pytest.raises(KitError, match="edit it by hand"):
        remove(text, "a:b")
    assert remove(text, "c:d") == "plugins:\n- use: a:b\n  config: &c {x: 1}\n"


def test_a_broken_record_does_not_stand_in_the_way_of_its_neighbours() -> None:
    text = (
        "plugins:\n- use: a:b\n- nonsense\n- use: c:d\n  requierd: true\n- {use: e:f, config: !!python/x 1}\n"
    )
    plugins = PluginsText(text, "config.yaml")
    problems = [record.problem for record in plugins.records]
    assert problems[0] is None
    assert "is no mapping" in str(problems[1])
    assert "requierd: is an unknown key" in str(problems[2])
    assert "cannot be read" in str(problems[3])
    assert switch(text, "a:b", False) == text.replace("use: a:b\n", "use: a:b\n  enabled: false\n")
    assert remove(text, "c:d") == text.replace("- use: c:d\n  requierd: true\n", "")


def test_records_are_found_by_name_then_package_then_entry_point() -> None:
    text = "plugins:\n- {name: one, use: a:b, package: pkg}\n- {use: a:b}\n- {name: pkg, use: c:d}\n"
    plugins = PluginsText(text, "config.yaml")
    assert [plugins.find(name).index for name in ("one", "pkg", "c:d")] == [0, 2, 2]
    with pytest.raises(WrongUseError, match=r"2 plugins are called 'a:b' \(line 2, line 3\)"):
        plugins.find("a:b")
    with pytest.raises(WrongUseError, match="no plugin is called 'x'; there are: one, a:b, pkg"):
        plugins.find("x")


_SECTIONS = st.sampled_from(
    [
        "my.key: 1\n",
        "2fa: {on: true}  # yes\n",
        "$schema: 'x'\n",
        "鍵: 値\n",
        "# a comment\n",
        "\n",
        "text: |\n  plugins:\n    - use: not:me\n",
        "list:\n- a\n- b: c\n",
        'quoted: "a\\tb"   \n',
    ]
)
_RECORDS = st.sampled_from(
    [
        "- use: NAME\n",
        "- use: NAME  # why\n  config: {a: 1}\n",
        "- {use: NAME, config: {b: [1, 2]}}\n",
        '- "use": "NAME"\n  enabled: true # c\n',
        "- config:\n    - x\n    -  y\n  use: NAME\n",
        "-   use: NAME\n    table_prefix: 't_'\n",
        "- enabled: false\n  use: NAME\n  config:\n    t: >\n      folded\n      text\n",
    ]
)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    """The text of a file, and begin and end of each record in it."""
    before = "".join(dict.fromkeys(draw(st.lists(_SECTIONS, max_size=4))))
    kinds = draw(st.lists(_RECORDS, min_size=1, max_size=4))
    gap = draw(st.sampled_from(["", "\n", "# between\n", "    # further in\n"]))
    indent = draw(st.sampled_from(["", "  ", "    "]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text, places = f"{before}plugins:\n".replace("\n", newline), []
    for number, kind in enumerate(kinds):
        record = "".join(indent + line for line in kind.splitlines(keepends=True))
        record = record.replace("NAME", f"m{number}:install").replace("\n", newline)
        places.append((len(text), len(text) + len(record)))
        text += record + gap.replace("\n", newline)
    after = draw(st.sampled_from(["", "z: 1\n", "# end\n", "z:\n- 1\n"]))
    return text + after.replace("\n", newline), places


@given(file=files(), enabled=st.booleans(), data=st.data())
def test_whatever_the_file_looks_like_only_the_record_changes(
    file: tuple[str, list[tuple[int, int]]], enabled: bool, data: st.DataObject
) -> None:
    text, places = file
    index = data.draw(st.integers(0, len(places) - 1))
    begin, end = places[index]
    switched = switch(text, f"m{index}:install", enabled)
    assert switched.startswith(text[:begin]) and switched.endswith(text[end:])
    assert yaml.safe_load(switched)["plugins"][index]["enabled"] is enabled
    removed = remove(text, f"m{index}:install")
    if len(places) > 1:
        assert removed == text[:begin] + text[end:]
    else:
        head, key, gap = text[:begin].rpartition("plugins:")
        assert removed == f"{head}{key} []{gap}{text[end:]}"
    appended = append(text, name="new", use="new:install")
    assert remove(appended, "new") == text
    assert yaml.safe_load(appended)["plugins"][:-1] == yaml.safe_load(text)["plugins"]
