"""`python -m sfumato` is the `sfumato` command."""

from sfumato.api.cli import main

main()
