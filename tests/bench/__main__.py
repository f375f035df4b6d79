"""`python -m tests.bench [PART ...]`: print the figures of all parts, or of the named ones."""

from __future__ import annotations

import importlib
import sys

_PARTS = (
    "axonx",
    "contributions",
    "delegation",
    "embedded",
    "http",
    "starting",
    "workers",
)


def main() -> None:
    print(f"{'what / beside what':<58} {'ours':>11}  {'reference':>11}  ratio")
    for name in sys.argv[1:] or _PARTS:
        importlib.import_module(f"tests.bench.{name}").run()


main()
