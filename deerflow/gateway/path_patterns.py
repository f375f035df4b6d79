"""Which paths a route's pattern matches, decided for all paths at once and not by trying some.

A pattern becomes a small automaton. One covers another when it accepts every path that the other accepts;
what cannot be told, as with converters that nobody here knows, counts as not proven. Line breaks are left
out of consideration: `$` and `.` treat them in ways of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from starlette.convertors import (
    FloatConvertor,
    IntegerConvertor,
    PathConvertor,
    StringConvertor,
    UUIDConvertor,
)
from starlette.routing import PARAM_REGEX, compile_path

Accepts = Callable[[str], bool]
States = frozenset[int]

MAX_STEPS: Final = 20_000
_DIGITS: Final = frozenset("0123456789")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
# One character of every kind that the known converters tell apart; literals are added to them.
_KINDS: Final = ("/", ".", "-", "0123456789", "abcdefABCDEF", "ghijklmnopqrstuvwxyz")


class _Automaton:
    """States with moves on characters and free moves; it accepts in its last state."""

    def __init__(self) -> None:
        self._moves: list[list[tuple[Accepts, int]]] = [[]]
        self._free: list[list[int]] = [[]]
        self.last = 0

    @property
    def start(self) -> States:
        return self._with_free_moves([0])

    def step(self, states: States, character: str) -> States:
        targets = (target for state in states for accepts, target in self._moves[state] if accepts(character))
        return self._with_free_moves(targets)

    def accepts_in(self, states: States) -> bool:
        return self.last in states

    def one(self, accepts: Accepts) -> None:
        """Then one character."""
        self._moves[self.last].append((accepts, self._new()))
        self.last += 1

    def some(self, accepts: Accepts) -> None:
        """Then one character or more."""
        self.one(accepts)
        self._moves[self.last].append((accepts, self.last))

    def any(self, accepts: Accepts) -> None:
        """Then any number of characters."""
        self._free[self.last].append(self._new())
        self.last += 1
        self._moves[self.last].append((accepts, self.last))

    def maybe(self, build: Callable[[], None]) -> None:
        """Then what `build` adds, or nothing."""
        before = self.last
        build()
        self._free[before].append(self.last)

    def _new(self) -> int:
        self._moves.append([])
        self._free.append([])
        return len(self._moves) - 1

    def _with_free_moves(self, states: Iterable[int]) -> States:
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state not in reached:
                reached.add(state)
                waiting.extend(self._free[state])
        return frozenset(reached)


@dataclass(frozen=True)
class PathPattern:
    """The pattern of one route, such as `/threads/{thread_id}`. Raises where no route could have it."""

    path: str

    def __post_init__(self) -> None:
        compile_path(self.path)

    def covers(self, other: PathPattern) -> bool:
        """Whether every path that `other` matches is certainly matched by this one, too."""
        if self._anonymous == other._anonymous:
            return True
        if not self._may_share_paths_with(other):
            return False
        mine, theirs = self._surely_matched, other._possibly_matched
        alphabet = _alphabet(self.path + other.path)
        waiting = [(mine.start, theirs.start)]
        seen = set(waiting)
        while waiting:
            own, foreign = waiting.pop()
            # From wherever the other one is, some path leads it to acceptance: this one must not be lost.
            if not own or (theirs.accepts_in(foreign) and not mine.accepts_in(own)):
                return False
            for character in alphabet:
                pair = (mine.step(own, character), theirs.step(foreign, character))
                if pair[1] and pair not in seen:
                    seen.add(pair)
                    waiting.append(pair)
            if len(seen) > MAX_STEPS:
                return False
        return True

    def can_reach(self, namespace: str) -> bool:
        """Whether some path that is matched may be `namespace`, or lie below it."""
        automaton = self._possibly_matched
        states = automaton.start
        for character in namespace:
            states = automaton.step(states, character)
        # Every state leads on to the last one, so that any state at all means some path.
        return automaton.accepts_in(states) or bool(automaton.step(states, "/"))

    def _may_share_paths_with(self, other: PathPattern) -> bool:
        """Whether the texts around the parameters agree: a cheap look before the thorough one."""
        first, last = self.path.partition("{")[0], self.path.rpartition("}")[2]
        other_first, other_last = other.path.partition("{")[0], other.path.rpartition("}")[2]
        return (first.startswith(other_first) or other_first.startswith(first)) and (
            last.endswith(other_last) or other_last.endswith(last)
        )

    @cached_property
    def _anonymous(self) -> str:
        """The regular expression, whatever the parameters are called."""
        return re.sub(r"\(\?P<\w+>", "(", compile_path(self.path)[0].pattern)

    @cached_property
    def _surely_matched(self) -> _Automaton:
        return self._automaton(unknown=_nothing)

    @cached_property
    def _possibly_matched(self) -> _Automaton:
        return self._automaton(unknown=_any_path)

    def _automaton(self, unknown: Callable[[_Automaton], None]) -> _Automaton:
        automaton = _Automaton()
        convertors = compile_path(self.path)[2]
        position = 0
        for match in PARAM_REGEX.finditer(self.path):
            _add_text(automaton, self.path[position : match.start()])
            _CONVERTERS.get(convertors[match.group(1)].regex, unknown)(automaton)
            position = match.end()
        _add_text(automaton, self.path[position:])
        return automaton


def _add_text(automaton: _Automaton, text: str) -> None:
    for expected in text:
        automaton.one(lambda character, expected=expected: character == expected)  # type: ignore[misc]


def _alphabet(literals: str) -> list[str]:
    """The literals, and of each kind one character that is none of them, where there is one."""
    used = set(literals)
    others = {next((c for c in kind if c not in used), None) for kind in _KINDS}
    return sorted(used | {other for other in others if other is not None})


def _is_digit(character: str) -> bool:
    return character in _DIGITS


def _is_hex(character: str) -> bool:
    return character in _HEX


def _any_text(automaton: _Automaton) -> None:
    automaton.some(lambda character: character != "/")


def _any_path(automaton: _Automaton) -> None:
    automaton.any(lambda _: True)


def _nothing(automaton: _Automaton) -> None:
    automaton.one(lambda _: False)


def _whole_number(automaton: _Automaton) -> None:
    automaton.some(_is_digit)


def _number(automaton: _Automaton) -> None:
    def fraction() -> None:
        _add_text(automaton, ".")
        automaton.some(_is_digit)

    automaton.some(_is_digit)
    automaton.maybe(fraction)


def _uuid(automaton: _Automaton) -> None:
    for index, length in enumerate((8, 4, 4, 4, 12)):
        if index:
            automaton.maybe(lambda: _add_text(automaton, "-"))
        for _ in range(length):
            automaton.one(_is_hex)


_CONVERTERS: Final[dict[str, Callable[[_Automaton], None]]] = {
    StringConvertor.regex: _any_text,
    PathConvertor.regex: _any_path,
    IntegerConvertor.regex: _whole_number,
    FloatConvertor.regex: _number,
    UUIDConvertor.regex: _uuid,
}
