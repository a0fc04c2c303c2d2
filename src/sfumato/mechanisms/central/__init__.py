"""Made-up rows: a noisy model of a table, and new rows drawn from it."""
