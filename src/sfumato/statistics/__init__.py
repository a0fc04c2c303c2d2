"""What can be learned from rows by adding up: moments per class, and counts."""

from sfumato.statistics.by_class import NO_CLASS, Statistics
from sfumato.statistics.counts import Counts
from sfumato.statistics.moments import Moments

__all__ = ["NO_CLASS", "Counts", "Moments", "Statistics"]
