"""Pieces of the pool: reading pushed releases, error rates with intervals, trials over folds and sites."""
