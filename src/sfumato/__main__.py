"""`python -m sfumato` is the `sfumato` command."""

from sfumato.cli import main

main()
