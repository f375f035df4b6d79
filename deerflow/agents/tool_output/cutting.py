"""Cut the content of a tool message to what a transcript can carry, and say so where it was cut."""

from __future__ import annotations

from typing import Any

from deerflow.agents.text import valid_text
from deerflow.agents.tool_output.limits import OutputLimits

Content = str | list[Any]

MAX_DEPTH = 50
"""Blocks nested deeper are cut there: neither a stored transcript nor a provider takes them."""

_NOTICE_CHARACTERS = 400


def is_fitting(content: Content, limits: OutputLimits) -> bool:
    """Whether `content` can go on as it is."""
    if isinstance(content, str):
        return len(content) <= limits.text_characters and valid_text(content) == content
    text, payload = _weights(content)
    is_small = text <= limits.text_characters and payload <= limits.payload_characters
    return is_small and len(content) <= limits.blocks and cleaned(content) == content


def cut(content: Content, limits: OutputLimits, pointer: str) -> Content:
    """Return valid `content` within `limits`; `pointer` tells in its notices where the rest is."""
    if isinstance(content, str):
        return cut_text(content, limits.text_characters, pointer)
    text, payload = _weights(content)
    leaves_blocks_out = payload > limits.payload_characters or len(content) > limits.blocks
    room = limits.text_characters - (_NOTICE_CHARACTERS if leaves_blocks_out else 0)
    blocks = content if text <= room else _with_text_cut(content, room, pointer)
    return _with_blocks_left_out(blocks, limits, pointer) if leaves_blocks_out else blocks


def cut_text(text: str, max_characters: int, pointer: str, *, left_out: int = 0) -> str:
    """Return the head and the tail of `text`, `max_characters` at most, with a notice between them.

    `left_out` characters that stood after it are counted in the notice.
    """
    if len(text) <= max_characters and not left_out:
        return text
    room = max(0, max_characters - len(_notice(len(text) + left_out, pointer)))
    tail_characters = 0 if left_out else room // 5
    head = text[: room - tail_characters]
    tail = text[len(text) - tail_characters :] if tail_characters else ""
    return f"{head}{_notice(len(text) - len(head) - len(tail) + left_out, pointer)}{tail}"


def cleaned(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return `value` (JSON-like) with every string in it valid, and without what is nested too deep."""
    if isinstance(value, str):
        return valid_text(value)
    if not isinstance(value, dict | list):
        return value
    if not depth:
        return "[left out: nested too deep]"
    if isinstance(value, list):
        return [cleaned(item, depth - 1) for item in value]
    return {cleaned(key, depth - 1): cleaned(item, depth - 1) for key, item in value.items()}


def _notice(characters: int, pointer: str) -> str:
    return f"\n[cut: {characters} characters left out here; {pointer}]\n"


def _text_of(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    is_text = isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    return block["text"] if is_text else None


def _weights(content: list[Any]) -> tuple[int, int]:
    texts = [_text_of(block) for block in content]
    payload = sum(_weight(block) for block, text in zip(content, texts, strict=True) if text is None)
    return sum(len(text) for text in texts if text is not None), payload


def _weight(value: Any) -> int:
    """Return about how many characters `value` has as JSON."""
    weight, pending = 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            pending += part
        else:
            weight += len(part) if isinstance(part, str | bytes) else 8
    return weight


def _with_text_cut(content: list[Any], max_characters: int, pointer: str) -> list[Any]:
    """Keep texts until they are too long together; cut that one, and leave out those after it."""
    room = max_characters - _NOTICE_CHARACTERS
    pending = sum(len(_text_of(block) or "") for block in content)
    kept: list[Any] = []
    for block in content:
        text = _text_of(block)
        if text is None:
            kept.append(block)
        elif room >= 0:
            pending -= len(text)
            if len(text) > room:
                text = cut_text(text, room + _NOTICE_CHARACTERS, pointer, left_out=pending)
                block = text if isinstance(block, str) else {**block, "text": text}
                room = -1
            else:
                room -= len(text)
            kept.append(block)
    return kept


def _with_blocks_left_out(content: list[Any], limits: OutputLimits, pointer: str) -> list[Any]:
    """Keep whole blocks while there is room for them; never a part of a payload."""
    kept: list[Any] = []
    room, left_out, characters = limits.payload_characters, 0, 0
    for block in content:
        text = _text_of(block)
        weight = _weight(block) if text is None else 0
        if weight <= room and len(kept) < limits.blocks - 1:
            room -= weight
            kept.append(block)
        else:
            left_out += 1
            characters += weight + len(text or "")
    notice = f"[left out: {left_out} blocks with {characters} characters; {pointer}]"
    return [*kept, {"type": "text", "text": notice}]
