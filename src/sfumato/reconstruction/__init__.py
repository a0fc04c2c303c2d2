"""Reconstruction: the distribution of the original values from a release and its card, never the values themselves."""
