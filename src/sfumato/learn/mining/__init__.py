"""Mining beyond classification: clusters, linear models and rules from releases, with the noise taken into account."""
