"""`python -m axonx.cli`."""

from axonx.cli.main import main

main()
