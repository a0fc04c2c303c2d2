"""Rows that belong to nobody: a noisy model of a table, and new rows drawn from it."""
