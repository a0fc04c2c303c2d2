"""What analysts learn from releases: classifiers, clusters, rules, regressions, models."""
