"""Mechanisms at several strengths against every adversary and several learners, cell by cell."""
