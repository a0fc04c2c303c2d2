"""What an attack got and what a release is still good for: plain functions, each says which way is better."""

from __future__ import annotations

from sfumato.metrics.density_loss import Loss, RowDensity, dapl, half_l1
from sfumato.metrics.privacy import (
    Interval,
    auc,
    auc_interval,
    breaches,
    falls,
    interval_width,
    mean_interval,
    proportion_interval,
    rises,
    root_mean_square,
    variance_of_difference,
    worst_records,
)
from sfumato.metrics.recovery import recovery_curve
from sfumato.metrics.score import score_guess
from sfumato.metrics.scored import ScoredGuess, Truth, usual_guess
from sfumato.metrics.sources import HardInterval, Hits, hard_interval, source_hit_rate
from sfumato.metrics.unified import (
    Unified,
    column_privacy,
    component_privacy,
    nearest_row_privacy,
    unified_privacy,
)
from sfumato.metrics.utility import (
    Phi,
    accuracy,
    associations,
    kolmogorov_smirnov,
    phi,
    total_variation,
    wasserstein,
)

__all__ = [
    "HardInterval",
    "Hits",
    "Interval",
    "Loss",
    "Phi",
    "RowDensity",
    "ScoredGuess",
    "Truth",
    "Unified",
    "accuracy",
    "associations",
    "auc",
    "auc_interval",
    "breaches",
    "column_privacy",
    "component_privacy",
    "dapl",
    "falls",
    "half_l1",
    "hard_interval",
    "interval_width",
    "kolmogorov_smirnov",
    "mean_interval",
    "nearest_row_privacy",
    "phi",
    "proportion_interval",
    "recovery_curve",
    "rises",
    "root_mean_square",
    "score_guess",
    "source_hit_rate",
    "total_variation",
    "unified_privacy",
    "usual_guess",
    "variance_of_difference",
    "wasserstein",
    "worst_records",
]
