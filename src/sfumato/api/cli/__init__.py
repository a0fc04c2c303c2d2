"""The command line: parsing and printing only; everything it does can be done from Python."""

from sfumato.api.cli.app import app, main

__all__ = ["app", "main"]
