"""What can be learned from rows by adding up: moments per class, and counts."""

from sfumato.table.statistics.by_class import NO_CLASS, Counts, Statistics
from sfumato.table.statistics.moments import Moments

__all__ = ["NO_CLASS", "Counts", "Moments", "Statistics"]
