"""Noise: its laws, the secure streams it is drawn from, and exact sampling on a grid."""

from sfumato.core.registry import found_in
from sfumato.noise.grid import discrete_laplace as discrete_laplace
from sfumato.noise.law import Law as Law
from sfumato.noise.laws import LAWS as LAWS
from sfumato.noise.laws import Laplace as Laplace
from sfumato.noise.laws import Normal as Normal
from sfumato.noise.laws import StudentT as StudentT
from sfumato.noise.laws import Uniform as Uniform
from sfumato.noise.laws import make_law as make_law
from sfumato.noise.operator_noise import NumberNoise as NumberNoise
from sfumato.noise.operator_noise import OperatorNoise as OperatorNoise
from sfumato.noise.operators import CUSTOM as CUSTOM
from sfumato.noise.operators import Operator as Operator
from sfumato.noise.operators import make_operator as make_operator
from sfumato.noise.streams import Streams as Streams

__getattr__ = found_in(__name__)
