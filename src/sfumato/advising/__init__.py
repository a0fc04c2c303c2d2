"""Which mechanism, how strong, for this table: candidates, trials, a search, and a forecast on other rows."""
