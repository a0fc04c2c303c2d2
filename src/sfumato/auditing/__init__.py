"""The steps of an audit: read the evidence, give each adversary what it may know, score, measure, write down."""
