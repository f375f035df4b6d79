"""`python -m tests.bench [PART ...]`: print the figures of all parts, or of the named ones."""

from __future__ import annotations

import sys

from tests.bench import embedded, starting

_PARTS = {"embedded": embedded.run, "starting": starting.run}


def main() -> None:
    print(f"{'what / beside what':<58} {'ours':>11}  {'reference':>11}  ratio")
    for name in sys.argv[1:] or _PARTS:
        _PARTS[name]()


main()
