"""Noise: its laws, the secure streams it is drawn from, and exact sampling on a grid."""

from sfumato.core.registry import found_in
from sfumato.noise.grid import discrete_laplace
from sfumato.noise.law import Law
from sfumato.noise.laws import LAWS, Laplace, Normal, StudentT, Uniform, make_law
from sfumato.noise.operator_noise import NumberNoise, OperatorNoise
from sfumato.noise.operators import CUSTOM, Operator, make_operator
from sfumato.noise.streams import Streams

__all__ = [
    "CUSTOM",
    "LAWS",
    "Laplace",
    "Law",
    "Normal",
    "NumberNoise",
    "Operator",
    "OperatorNoise",
    "Streams",
    "StudentT",
    "Uniform",
    "discrete_laplace",
    "make_law",
    "make_operator",
]

__getattr__ = found_in(__name__)
