"""Text that can be stored, sent and hashed wherever it goes."""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def valid_text(text: str) -> str:
    """Return `text` as valid UTF-8 can hold it, unchanged where it already is.

    Halves of a surrogate pair that stand side by side become the character they mean; lone halves and
    NUL (which PostgreSQL stores in no text) become U+FFFD.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", REPLACEMENT)


def quoted(text: str, *, max_characters: int = 120) -> str:
    """Return `text` in quotes on one line, bounded, for a message."""
    shown = repr(valid_text(text[: max_characters + 1]))
    return shown if len(text) <= max_characters else f"{shown[:max_characters]}…'"


def shortened(text: str, max_characters: int) -> str:
    """Return `text`, or its beginning with a mark where it is longer."""
    if len(text) <= max_characters:
        return text
    notice = "… [cut]"
    return text[: max_characters - len(notice)] + notice
