"""Noise: its laws, the secure streams it is drawn from, and exact sampling on a grid."""

from sfumato.noise.amplification import Amplification, bounded_amplification
from sfumato.noise.expression import Expression, parse_expression
from sfumato.noise.grid import discrete_laplace, exact_bernoulli, uniform_integers
from sfumato.noise.law import Law
from sfumato.noise.laws import (
    A_LAW,
    LAWS,
    Biweight,
    Epanechnikov,
    Laplace,
    Normal,
    StudentT,
    Triangular,
    Uniform,
    law_from_dict,
    make_law,
)
from sfumato.noise.operator_noise import NumberNoise, OperatorNoise
from sfumato.noise.operators import CUSTOM, OPERATORS, Branch, Operator, make_operator
from sfumato.noise.response import (
    WindowNoise,
    as_share,
    keep_threshold,
    odds_epsilon,
    odds_threshold,
    randomized_response,
    response_epsilon,
)
from sfumato.noise.streams import Streams, content_hash

__all__ = [
    "A_LAW",
    "CUSTOM",
    "LAWS",
    "OPERATORS",
    "Amplification",
    "Biweight",
    "Branch",
    "Epanechnikov",
    "Expression",
    "Laplace",
    "Law",
    "Normal",
    "NumberNoise",
    "Operator",
    "OperatorNoise",
    "Streams",
    "StudentT",
    "Triangular",
    "Uniform",
    "WindowNoise",
    "as_share",
    "bounded_amplification",
    "content_hash",
    "discrete_laplace",
    "exact_bernoulli",
    "keep_threshold",
    "law_from_dict",
    "make_law",
    "make_operator",
    "odds_epsilon",
    "odds_threshold",
    "parse_expression",
    "randomized_response",
    "response_epsilon",
    "uniform_integers",
]
