"""The secrets of users: how they are made, and what is kept of them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final

from deerflow.errors import InvalidRequestError
from deerflow.persistence.accounts import NewToken

TOKEN_PREFIX: Final = "dft_"
MIN_PASSWORD_CHARACTERS: Final = 8
MAX_PASSWORD_CHARACTERS: Final = 1024

_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
# What everyone is called where there are no users: whatever extensions keep for it is nobody's own.
_RESERVED_NAMES = frozenset({"local"})


def new_secret() -> str:
    """32 random bytes as text."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """What is kept of a random secret. Only for those: of passwords it would be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(*, is_admin: bool) -> tuple[str, NewToken]:
    """A token, which its user alone gets to see, and what is kept of it."""
    token = TOKEN_PREFIX + new_secret()
    return token, NewToken(digest(token), secrets.token_hex(4), is_admin)


def csrf_token(session_secret: str) -> str:
    """What a page has to repeat to show that it may read this session's cookies. It tells nothing of them."""
    return hmac.digest(session_secret.encode("utf-8", "surrogatepass"), b"csrf", "sha256").hex()


def is_csrf_token(text: str, session_secret: str) -> bool:
    """Whether `text` is the session's, found out in the same time for any text."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), csrf_token(session_secret).encode())


def checked_user_name(name: str) -> str:
    """The name in lower case. `InvalidRequestError` for what cannot be a user's name."""
    lower = name.strip().lower()
    if not _USER_NAME.fullmatch(lower):
        raise InvalidRequestError(
            f"user {name[:80]!r}: a name has 1 to 64 letters a-z, digits, and . _ @ + - after the first"
        )
    if lower in _RESERVED_NAMES:
        raise InvalidRequestError(f"user {lower!r}: this name is reserved; take another one")
    return lower


def checked_password(password: str) -> str:
    """The password itself. `InvalidRequestError` where it is too short or too long."""
    if not MIN_PASSWORD_CHARACTERS <= len(password) <= MAX_PASSWORD_CHARACTERS:
        raise InvalidRequestError(
            f"a password has {MIN_PASSWORD_CHARACTERS} to {MAX_PASSWORD_CHARACTERS} characters"
        )
    return password
