"""Edits of `plugins:` in a configuration's text that leave every byte outside of the record as it is.

A YAML library that writes the whole file again would change quotes, indentation and line ends of sections
that nobody asked about. Here places come from the parser, and what was written is parsed again and compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from deerflow.kit.errors import KitError
from deerflow.kit.plugin_records import BREAKS, PLUGINS, PluginRecord, PluginsText, is_null, shape


def with_enabled(plugins: PluginsText, record: PluginRecord, enabled: bool) -> str:
    """Return the text in which `record` says `enabled: true` or `false`. Raises `KitError`."""
    word = "true" if enabled else "false"
    pairs = _pairs(plugins, record)
    own = [value for key, value in pairs if key.value == "enabled"]
    if len(own) > 1:
        raise plugins.refuse(f"{record.label}: enabled stands {len(own)} times; keep one of them")
    if own:
        new = _with_scalar(plugins, record, own[0], word)
    else:
        new = _with_pair(plugins, record, f"enabled: {word}")
    _verify(plugins, new, record.index, {**record.fields, "enabled": enabled})
    return new


def with_appended(plugins: PluginsText, fields: Mapping[str, Any]) -> str:
    """Return the text with one more record at the end of the list. Raises `KitError`."""
    lines = [f"{key}: {_scalar(value)}" for key, value in fields.items()]
    value = plugins.value
    if value is None or plugins.key is None:
        new = _with_list(plugins, lines)
    elif isinstance(value, yaml.SequenceNode) and value.value:
        new = _after_last(plugins, value, lines)
    elif is_null(value) or value.start_mark.line == value.end_mark.line:
        new = _in_place_of_nothing(plugins, plugins.key, value, lines)
    else:
        new = _insert(plugins.text, value.start_mark.index + 1, "{" + ", ".join(lines) + "}")
    _verify(plugins, new, len(plugins.records), {key: _escaped(value) for key, value in fields.items()})
    return new


def without(plugins: PluginsText, record: PluginRecord) -> str:
    """Return the text without `record`; comments around it stay. Raises `KitError`."""
    value = plugins.value
    if not isinstance(value, yaml.SequenceNode):
        raise plugins.refuse(f"{record.label} stands in no list")
    if value.flow_style:
        new = _without_flow_item(plugins, value, record)
    else:
        new = _without_block_item(plugins, value, record)
    _verify(plugins, new, record.index, None)
    return new


def _pairs(plugins: PluginsText, record: PluginRecord) -> list[tuple[yaml.Node, yaml.Node]]:
    node = record.node
    if not isinstance(node, yaml.MappingNode):
        raise plugins.refuse(f"{record.label} is no mapping; write `use: module:install`")
    if node.start_mark.index < plugins.value.start_mark.index:  # type: ignore[union-attr]  # it has records
        raise plugins.refuse(f"{record.label} is an alias (*); write the record itself")
    return [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _with_scalar(plugins: PluginsText, record: PluginRecord, value: yaml.Node, word: str) -> str:
    start, end = value.start_mark.index, value.end_mark.index
    written = plugins.text[start:end]
    is_plain = isinstance(value, yaml.ScalarNode) and not written.startswith(("&", "!", "|", ">"))
    if not is_plain or not record.node.start_mark.index <= start <= record.node.end_mark.index:
        raise plugins.refuse(f"{record.label}: enabled is no plain value; write true or false there")
    return plugins.text[:start] + (word if written else f" {word}") + plugins.text[end:]


def _with_pair(plugins: PluginsText, record: PluginRecord, pair: str) -> str:
    """Insert a pair after the first one that ends on the line it begins on, else in front of all."""
    node, text = record.node, plugins.text
    anchor = next((v for _, v in node.value if _ends_on_its_line(v, node)), None)
    first = node.value[0][0] if node.value else None
    if _is_flow(node):
        if anchor is not None:
            return _insert(text, anchor.end_mark.index, f", {pair}")
        return _insert(text, node.start_mark.index + 1, f"{pair}{', ' if first is not None else ''}")
    if first is None:
        raise plugins.refuse(f"{record.label} is empty; write `use: module:install`")
    indent, at = " " * first.start_mark.column, first.start_mark.index
    if anchor is None:
        return _insert(text, at, f"{pair}{_newline(text, at)}{indent}")
    return _insert_line(text, anchor.end_mark.index, indent + pair)


def _ends_on_its_line(value: yaml.Node, record: yaml.Node) -> bool:
    inside = record.start_mark.index <= value.start_mark.index
    simple = isinstance(value, yaml.ScalarNode) and value.style not in ("|", ">") and bool(value.value)
    return inside and simple and value.start_mark.line == value.end_mark.line


def _after_last(plugins: PluginsText, value: yaml.SequenceNode, lines: list[str]) -> str:
    last = value.value[-1]
    if value.flow_style:
        return _insert(plugins.text, last.end_mark.index, ", {" + ", ".join(lines) + "}")
    return _insert_lines(plugins.text, _content_end(plugins.text, last), value.start_mark.column, lines)


def _in_place_of_nothing(plugins: PluginsText, key: yaml.Node, value: yaml.Node, lines: list[str]) -> str:
    """Put a block list below `plugins:`, `plugins: null` or `plugins: []`; a comment there stays."""
    start, end = value.start_mark.index, value.end_mark.index
    text = plugins.text
    while start < end and text[start - 1] in " \t":
        start -= 1
    text = text[:start] + text[end:]
    return _insert_lines(text, start, key.start_mark.column + 2, lines)


def _with_list(plugins: PluginsText, lines: list[str]) -> str:
    root = plugins.root
    if root is not None and root.flow_style:
        raise plugins.refuse("is one {...} mapping; write each section on lines of its own")
    column = root.start_mark.column if root is not None else 0
    text, newline = plugins.text, _newline(plugins.text, 0)
    start = newline if text.strip("\ufeff") and text[-1] not in BREAKS else ""
    block = _block([f"{PLUGINS}:"], column, newline) + newline + _record_block(lines, column + 2, newline)
    return f"{text}{start}{block}{newline}"


def _without_block_item(plugins: PluginsText, value: yaml.SequenceNode, record: PluginRecord) -> str:
    text, item = plugins.text, record.node
    dashes = [
        token.start_mark
        for token in plugins.tokens
        if isinstance(token, yaml.BlockEntryToken)
        and value.start_mark.index <= token.start_mark.index < value.end_mark.index
        and token.start_mark.column == value.start_mark.column
    ]
    start = _line_start(text, dashes[record.index].index)
    end = _line_end(text, max(_content_end(text, item), dashes[record.index].index + 1))
    if len(value.value) > 1:
        return text[:start] + text[end:]
    colon = next(
        token.end_mark.index
        for token in plugins.tokens
        if isinstance(token, yaml.ValueToken) and token.start_mark.index >= plugins.key.end_mark.index  # type: ignore[union-attr]
    )
    return f"{text[:colon]} []{text[colon:start]}{text[end:]}"


def _without_flow_item(plugins: PluginsText, value: yaml.SequenceNode, record: PluginRecord) -> str:
    text, index, items = plugins.text, record.index, value.value
    start, end = items[index].start_mark.index, items[index].end_mark.index
    commas = [t.start_mark.index for t in plugins.tokens if isinstance(t, yaml.FlowEntryToken)]
    if index + 1 < len(items):
        end = next(comma for comma in commas if comma >= end) + 1
        while text[end] in " \t":
            end += 1
    elif index > 0:
        start = max(comma for comma in commas if comma < start)
    return text[:start] + text[end:]


def _is_flow(node: yaml.Node) -> bool:
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _content_end(text: str, node: yaml.Node) -> int:
    """Where the last thing of a node ends; a block's own mark stands behind the comments after it."""
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        return _text_end(text, node)
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    parts = last if isinstance(last, tuple) else (last,)
    return max(_content_end(text, part) for part in parts)


def _text_end(text: str, node: yaml.Node) -> int:
    """The end of a block of text; empty lines behind it belong to it only where it keeps them."""
    start, end = node.start_mark.index, node.end_mark.index
    header = text[start : _line_end(text, start + 1)].partition("#")[0]
    while "+" not in header and not text[_line_start(text, end - 1) : end].strip():
        end = _line_start(text, end - 1)
    return int(end)


def _insert_lines(text: str, at: int, column: int, lines: list[str]) -> str:
    """Insert a block record as lines of their own after the line of `at`."""
    return _insert_line(text, at, _record_block(lines, column, _newline(text, at)))


def _record_block(lines: list[str], column: int, newline: str) -> str:
    first, *rest = lines
    return _block([f"- {first}", *(f"  {line}" for line in rest)], column, newline)


def _block(lines: list[str], column: int, newline: str) -> str:
    return newline.join(" " * column + line for line in lines)


def _insert_line(text: str, at: int, line: str) -> str:
    end, newline = _line_end(text, at), _newline(text, at)
    if end == len(text) and text[end - 1] not in BREAKS:
        return f"{text}{newline}{line}"
    return _insert(text, end, line + newline)


def _insert(text: str, at: int, addition: str) -> str:
    return text[:at] + addition + text[at:]


def _line_start(text: str, at: int) -> int:
    while at > 0 and text[at - 1] not in BREAKS:
        at -= 1
    return at


def _line_end(text: str, at: int) -> int:
    """The start of the next line; `at` itself where that is the start of a line already."""
    if at > 0 and text[at - 1] in BREAKS and not (text[at - 1] == "\r" and text[at : at + 1] == "\n"):
        return at
    while at < len(text) and text[at] not in BREAKS:
        at += 1
    return at + 2 if text.startswith("\r\n", at) else min(at + 1, len(text))


def _newline(text: str, at: int) -> str:
    """The kind of line end in use: that of the line of `at`, else the first one of the text."""
    for end in (_line_end(text, at), _line_end(text, 0)):
        if text[end - 1 : end] == "\n":
            return "\r\n" if text[end - 2 : end] == "\r\n" else "\n"
    return "\n"


def _escaped(value: Any) -> Any:
    """The value as the file has to say it: a dollar sign begins a reference to a variable."""
    return value.replace("$", "$$") if isinstance(value, str) else value


def _scalar(value: Any) -> str:
    written: str = yaml.safe_dump(_escaped(value), default_flow_style=True, allow_unicode=True, width=2**31)
    return written.removesuffix("\n").removesuffix("...").removesuffix("\n")


def _verify(before: PluginsText, text: str, index: int, expected: Mapping[str, Any] | None) -> None:
    """Parse what was written: the record is as expected, and everything else says what it said."""
    try:
        after = PluginsText(text, before.source)
    except KitError as error:
        raise _not_editable(before) from error
    kept = [shape(record.node) for record in before.records]
    now = [shape(record.node) for record in after.records]
    if expected is None:
        touched_is_right = True
        del kept[index]
    else:
        touched_is_right = len(now) > index and dict(after.records[index].fields) == dict(expected)
        del kept[index : index + 1], now[index : index + 1]
    if not touched_is_right or kept != now or _others(before) != _others(after):
        raise _not_editable(before)


def _not_editable(plugins: PluginsText) -> KitError:
    return plugins.refuse(
        "plugins is written in a way that cannot be edited without changing more; edit it by hand"
    )


def _others(plugins: PluginsText) -> list[Any]:
    pairs = plugins.root.value if plugins.root is not None else []
    return [(shape(key), shape(value)) for key, value in pairs if key is not plugins.key]
