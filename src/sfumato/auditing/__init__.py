"""The steps of an audit: open the case, give each attacker what it may know, score, measure, write down."""
