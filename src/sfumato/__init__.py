"""Sfumato: learn from private tables without seeing the people in them."""

__version__ = "0.1.0"
