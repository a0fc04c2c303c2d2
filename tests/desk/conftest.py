"""Desks and tables of the tests."""

from desk_visits import opened, own_places, patients  # noqa: F401 - fixtures
