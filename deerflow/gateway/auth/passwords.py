"""Passwords: made slow to guess, and held against what is kept of them without holding up anything else."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from deerflow.errors import UnavailableError

# Each comparison takes 64 MiB and a core for a moment.
AT_ONCE: Final = 2
MAX_WAITING: Final = 32

_hashes = PasswordHash((Argon2Hasher(),))


def hash_password(password: str) -> str:
    """What is kept of a password."""
    return _hashes.hash(_text(password))


@dataclass(frozen=True)
class Comparison:
    """Whether a password was right; `renewed` is what to keep of it from now on, where that has changed."""

    matches: bool
    renewed: str | None = None


class Passwords:
    """Compares passwords in threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._waiting = 0
        self._of_nobody = hash_password(secrets.token_urlsafe(32))

    async def compare(self, password: str, kept: str | None) -> Comparison:
        """Hold a password against what is kept; `None` (there is no such user) takes as long and fails.

        Raises `UnavailableError` where too many wait.
        """
        if self._waiting >= MAX_WAITING:
            raise UnavailableError("too many are logging in at this moment; try again")
        self._waiting += 1
        try:
            compared = await asyncio.get_running_loop().run_in_executor(
                self._threads, _hashes.verify_and_update, _text(password), kept or self._of_nobody
            )
        finally:
            self._waiting -= 1
        return Comparison(*compared) if kept is not None else Comparison(matches=False)


def _text(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
