"""Engines differ only in who goes through the blocks of a table: threads of this process, or a cluster's executors."""
