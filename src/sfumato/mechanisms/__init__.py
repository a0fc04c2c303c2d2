"""Mechanisms: one family a file, found by looking through this folder."""

from sfumato.core.errors import UsageError
from sfumato.core.registry import discover
from sfumato.mechanisms.additive_noise import AdditiveNoise
from sfumato.mechanisms.base import Block, Mechanism
from sfumato.mechanisms.condensation import Condensation
from sfumato.mechanisms.guided_projection import GuidedProjection
from sfumato.mechanisms.kernel_resampling import KernelResampling
from sfumato.mechanisms.noisy_operator import MultiplicativeNoise, NoisyOperator
from sfumato.mechanisms.piecewise_noise import PiecewiseNoise, SquareWaveColumns
from sfumato.mechanisms.principal_laplace import PrincipalLaplace
from sfumato.mechanisms.random_projection import RandomProjection
from sfumato.mechanisms.random_rotation import RandomRotation
from sfumato.mechanisms.randomized_response import RandomizedResponse
from sfumato.mechanisms.row_drawing import RowDrawing
from sfumato.mechanisms.staged_release import StagedRelease
from sfumato.mechanisms.tree_resampling import ModelDrawing, TreeResampling

MECHANISMS: dict[str, type[Mechanism]] = discover(__name__, Mechanism, declares=("papers", "not_protected"))  # type: ignore[type-abstract]


def make_mechanism(name: str, parameters: dict[str, object] | None = None) -> Mechanism:
    """A mechanism by its name and parameters, as the command line gives them."""
    if name not in MECHANISMS:
        raise UsageError(f"There is no method {name!r}. Choose one of: {', '.join(sorted(MECHANISMS))}.")
    known = MECHANISMS[name]._get_param_names()
    for parameter in parameters or {}:
        if parameter == "epsilon_record" and parameter not in known:
            able = sorted(other for other, mechanism in MECHANISMS.items() if parameter in mechanism._get_param_names())
            raise UsageError(f"{name} cannot aim for an epsilon of the record. These methods can: {', '.join(able)}.")
        if parameter not in known:
            raise UsageError(f"{name} has no parameter {parameter!r}. It has: {', '.join(known)}.")
    return MECHANISMS[name](**(parameters or {}))


__all__ = [
    "MECHANISMS",
    "AdditiveNoise",
    "Block",
    "Condensation",
    "GuidedProjection",
    "KernelResampling",
    "Mechanism",
    "ModelDrawing",
    "MultiplicativeNoise",
    "NoisyOperator",
    "PiecewiseNoise",
    "PrincipalLaplace",
    "RandomProjection",
    "RandomRotation",
    "RandomizedResponse",
    "RowDrawing",
    "SquareWaveColumns",
    "StagedRelease",
    "TreeResampling",
    "make_mechanism",
]
