"""Has an entry point that cannot be called."""

install = 7
