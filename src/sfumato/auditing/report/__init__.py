"""audit.json -> one self-contained page that a data steward can read, print and keep."""
