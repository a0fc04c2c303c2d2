"""Neighbours: exact distances, nearest rows and radius votes by blocked matrix products."""
